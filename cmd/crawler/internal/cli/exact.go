package cli

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/bloomfrontier/crawler/internal/exact"
)

// checkTier returns the faults of flags that want a Postgres, and of one that
// nothing wants.
func (o *options) checkTier() (errs []error) {
	switch {
	case o.crawl.Fixed.Sink == "postgres" && o.postgres == "":
		errs = append(errs, errors.New("--sink postgres wants --postgres"))
	case o.crawl.Fixed.Sink == "postgres" && o.crawl.Records.Links:
		errs = append(errs, errors.New("--links wants records in files: leave out --sink postgres"))
	case o.crawl.Fixed.Sink != "postgres" && o.postgres != "" && o.redis == "":
		errs = append(errs, errors.New("--postgres without --redis wants --sink postgres: the exact keys of a crawl in a directory are there"))
	}
	if len(o.crawl.Fixed.Windows) > 0 && o.redis != "" && o.postgres == "" {
		errs = append(errs, errors.New("--window with --redis wants --postgres: Redis does not note when a URL was finished"))
	}
	return errs
}

// parseWindows returns the windows that --window names, by the rules of --exact.
func (o *options) parseWindows() (exact.Windows, error) {
	return exact.ParseWindows(strings.Join(o.crawl.Fixed.Windows, ","), o.exact.Rules)
}

// ruleList is a flag for rules of the exact tier, as package exact reads them.
// Each may have the name of its class before it: "gov: host=*.gov".
type ruleList struct{ *exact.Rules }

var _ pflag.SliceValue = (*ruleList)(nil)

func (l *ruleList) Type() string { return "RULES" }

func (l *ruleList) String() string {
	if l.Rules == nil { // pflag asks a zero list
		return ""
	}
	return l.Rules.String()
}

func (l *ruleList) Set(text string) error { return l.Replace([]string{text}) }

func (l *ruleList) Append(text string) error { return l.Replace(append(l.GetSlice(), text)) }

// Replace implements pflag.SliceValue: each text is one named rule, or a list of
// rules without names.
func (l *ruleList) Replace(texts []string) error {
	made, err := exact.ParseTexts(texts)
	if err == nil {
		l.Rules = made
	}
	return err
}

func (l *ruleList) GetSlice() []string {
	texts := []string{}
	for _, rule := range l.Given() {
		text := rule.Text
		if rule.Name != "" && rule.Name != rule.Text {
			text = rule.Name + ": " + text
		}
		texts = append(texts, text)
	}
	return texts
}

// ruleTexts returns what the config file has for --exact: a list of rules, of
// which any can be "NAME: RULE".
func ruleTexts(node *yaml.Node) (texts []string, err error) {
	items := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		items = node.Content
	}
	for _, item := range items {
		if item.Kind == yaml.ScalarNode {
			texts = append(texts, item.Value)
			continue
		}
		if item.Kind != yaml.MappingNode {
			return nil, errors.New("want rules, each alone or as \"name: rule\"")
		}
		for key, rule := range pairs(item) {
			text := key.Value + ": " + rule.Value
			if rule.Kind != yaml.ScalarNode || !exact.Named(text) {
				return nil, errors.New("want \"name: rule\" with a name of letters, digits, - and _")
			}
			texts = append(texts, text)
		}
	}
	return texts, nil
}

// windowTexts returns what the config file has for --window: classes with times,
// or what the flag takes.
func windowTexts(node *yaml.Node) (texts []string, err error) {
	if node.Kind != yaml.MappingNode {
		return scalars(node)
	}
	for class, window := range pairs(node) {
		if window.Kind != yaml.ScalarNode {
			return nil, errors.New("want classes with times, such as \"seeds: 24h\"")
		}
		texts = append(texts, class.Value+"="+window.Value)
	}
	return texts, nil
}
