package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/seeds"
)

// layers are the flags of a crawl with the source of each value. The sources, from the
// weakest to the strongest, are: defaults, the crawl's settings, config file, CRAWLER_*
// environment, flags.
type layers struct {
	flags *pflag.FlagSet
	from  map[string]string // flag name -> source of its value; absent means default
	hosts []crawl.Host
	// hostsGiven reports that the config file has a hosts key.
	hostsGiven bool
	groups     []crawl.FieldGroup // fields in the config file, each group for some URLs
}

// fromFlag is the source of a value from the command line.
const fromFlag = "flag"

const envPrefix = "CRAWLER_"

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// envIgnored are variables that begin with envPrefix, but are only for tests of this
// module.
var envIgnored = []string{"CRAWLER_BIN", "CRAWLER_TEST_SERVERS"}

var (
	onlyFlags = []string{"help", "json"}           // flags that the environment cannot set
	noKeys    = []string{"help", "json", "config"} // flags that the config file cannot set
)

// newLayers returns layers with only the flags of a command line. The caller must have parsed
// the flags.
func newLayers(flags *pflag.FlagSet) *layers {
	l := &layers{flags: flags, from: make(map[string]string)}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			l.from[f.Name] = fromFlag
		}
	})
	return l
}

// readLayers adds the values of the environment and of the config file to parsed flags.
// The error lists every faulty value. The result contains all other values. When ctx ends while
// a config file that is a pipe is read, the error is that of ctx.
func readLayers(ctx context.Context, flags *pflag.FlagSet, environ []string) (*layers, error) {
	l := newLayers(flags)
	errs := []error{l.readEnviron(environ)}
	if config := flags.Lookup("config").Value.String(); config != "" {
		errs = append(errs, l.readFile(ctx, config))
	}
	return l, errors.Join(errs...)
}

// readEnviron reads the variables that name a flag. An empty variable counts as unset.
func (l *layers) readEnviron(environ []string) error {
	names := make(map[string]*pflag.Flag)
	l.flags.VisitAll(func(f *pflag.Flag) { names[envName(f.Name)] = f })
	for _, name := range onlyFlags {
		delete(names, envName(name))
	}
	var errs []error
	for _, pair := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || text == "" || slices.Contains(envIgnored, name) {
			continue
		}
		flag, known := names[name]
		if !known {
			errs = append(errs, fmt.Errorf("environment: %s names no flag of crawl%s", name, l.similarVariable(name)))
			continue
		}
		errs = append(errs, l.readVariable(flag.Name, name, text))
	}
	return errors.Join(errs...)
}

// readVariable sets a flag to the value of an environment variable. An empty value counts
// as unset.
func (l *layers) readVariable(flag, name, text string) error {
	values := []string{text}
	if l.flags.Lookup(flag).Value.Type() == "stringSlice" {
		values = strings.Split(text, ",")
	}
	if text == "" {
		return nil
	}
	return l.set(flag, values, name, name)
}

// names returns the names of all flags except those in without. A message can suggest them.
func (l *layers) names(without []string) []string {
	return slices.DeleteFunc(flagNames(l.flags), func(name string) bool { return slices.Contains(without, name) })
}

// similarVariable returns the end of a message about an unknown variable. It suggests
// similar names.
func (l *layers) similarVariable(name string) string {
	var known []string
	for _, flag := range l.names(onlyFlags) {
		known = append(known, strings.TrimPrefix(envName(flag), envPrefix))
	}
	return didYouMean(envPrefix, strings.TrimPrefix(name, envPrefix), known)
}

// set sets a flag unless a stronger source has set it. Errors begin with the label: the
// name of an environment variable, or the source and the name of the flag.
func (l *layers) set(name string, values []string, source, label string) error {
	if _, taken := l.from[name]; taken {
		return nil
	}
	flag := l.flags.Lookup(name)
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		if err := list.Replace(values); err != nil {
			return badValue(label, flag, strings.Join(values, ","), err)
		}
	} else if len(values) == 0 {
		return fmt.Errorf("%s has no value, want one", label)
	} else if err := flag.Value.Set(values[0]); err != nil {
		return badValue(label, flag, strings.Join(values, ","), err)
	} else if len(values) > 1 {
		return fmt.Errorf("%s has %d values, want one", label, len(values))
	}
	l.from[name] = source
	return nil
}

// where returns the source of a flag's value, such as --delay, CRAWLER_DELAY or
// "config.yaml:3: delay". Messages about the value begin with this source.
func (l *layers) where(name string) string {
	switch from := l.from[name]; from {
	case "", fromFlag:
		return "--" + name
	case envName(name):
		return from
	default:
		return from + ": " + name
	}
}

// readFile reads the config file, which is a map from names of flags to values. The map
// can also have the keys hosts and fields.
func (l *layers) readFile(ctx context.Context, name string) error {
	text, err := seeds.ReadFile(ctx, name)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	var doc, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if err := documents.Decode(&doc); errors.Is(err, io.EOF) { // the file is empty
		return nil
	} else if err != nil {
		return fmt.Errorf("config %s: %w", name, err)
	}
	if err := documents.Decode(&second); err == nil {
		return fmt.Errorf("%s:%d: a second YAML document begins; want a file with one", name, second.Line)
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("config %s: %w", name, err)
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: want flag names with values, such as \"delay: 2s\"", name, top.Line)
	}
	var errs []error
	seen := make(map[string]bool)
	for key, node := range pairs(top) {
		source := fmt.Sprintf("%s:%d", name, key.Line)
		switch {
		case seen[key.Value]:
			errs = append(errs, fmt.Errorf("%s: %s is given twice", source, key.Value))
		case key.Value == "hosts":
			l.hostsGiven = true
			errs = append(errs, l.readHosts(name, node))
		case key.Value == "fields":
			errs = append(errs, l.readFields(name, node))
		case l.flags.Lookup(key.Value) == nil || slices.Contains(noKeys, key.Value):
			errs = append(errs, fmt.Errorf("%s: unknown key %q%s", source, key.Value, didYouMean("", key.Value, l.names(noKeys))))
		default:
			values, err := texts(node, nameSeparators[key.Value])
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", source, key.Value, err))
				break
			}
			errs = append(errs, l.set(key.Value, values, source, source+": "+key.Value))
		}
		seen[key.Value] = true
	}
	return errors.Join(errs...)
}

// pairs yields the keys of a YAML mapping with their values.
func pairs(mapping *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if !yield(mapping.Content[i], mapping.Content[i+1]) {
				return
			}
		}
	}
}

// nameSeparators are the separators between names and values in the flags whose values can
// have names. In the config file, such a value can also be a map.
var nameSeparators = map[string]string{"exact": ": ", "window": "=", "field": "="}

// texts returns the value of a node, or the values of a list. If separator is not empty, the
// node can also have maps. Each of their entries becomes one text, with the separator between
// the name and the value.
func texts(node *yaml.Node, separator string) (values []string, err error) {
	fault := errors.New("want a value or a list of values")
	if separator != "" {
		fault = errors.New("want a value or a list of values, each alone or after a name, as in \"name: value\"")
	}
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag != "!!null":
		return []string{node.Value}, nil
	case node.Kind == yaml.MappingNode && separator != "":
		for name, text := range pairs(node) {
			swapped := separator == ": " && strings.Contains(name.Value, "=") // a rule such as host=*.gov before a name
			if text.Kind != yaml.ScalarNode || swapped {
				return nil, fault
			}
			values = append(values, name.Value+separator+text.Value)
		}
		return values, nil
	case node.Kind != yaml.SequenceNode:
		return nil, fault
	}
	values = []string{}
	for _, item := range node.Content {
		more, err := texts(item, separator)
		if err != nil || item.Kind == yaml.SequenceNode {
			return nil, fault
		}
		values = append(values, more...)
	}
	return values, nil
}

// Names of stored settings that are not flags.
const (
	tokenSetting = "product-token"
	hostsSetting = "hosts"
	formSetting  = "canonical-form"
)
