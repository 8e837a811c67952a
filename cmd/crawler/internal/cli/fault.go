package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// flagError marks an error about a flag of the command line.
type flagError struct{ error }

// flagFaults returns all faults of a command line with a faulty flag, each once. Parsing
// stops at an unknown flag. So flagFaults removes this flag and parses again, until all
// flags are known. Then the command can check its arguments.
func flagFaults(ctx context.Context, s streams, args []string) (faults []error) {
	note := func(fault error) {
		if !slices.ContainsFunc(faults, func(said error) bool { return said.Error() == fault.Error() }) {
			faults = append(faults, fault)
		}
	}
	for {
		root := newRoot(s)
		cmd, rest, err := root.Find(args)
		if err != nil {
			return append(faults, argumentFault(root, err))
		}
		flags := cmd.Flags()
		err = flags.ParseAll(rest, func(flag *pflag.Flag, text string) error {
			if err := flags.Set(flag.Name, text); err != nil {
				note(flagFault(cmd, err))
			}
			return nil
		})
		if err == nil {
			cmd.SetContext(ctx)
			if err = cmd.ValidateArgs(flags.Args()); err != nil {
				err = argumentFault(cmd, err)
			} else if cmd.PreRunE != nil {
				err = cmd.PreRunE(cmd, flags.Args())
			}
			if err != nil {
				faults = append(faults, err)
			}
			return faults
		}
		note(flagFault(cmd, err))
		unknown, is := errors.AsType[*pflag.NotExistError](err)
		if !is {
			return faults
		}
		long, short := "--"+unknown.GetSpecifiedName(), "-"+unknown.GetSpecifiedShortnames()
		at := slices.IndexFunc(args, func(arg string) bool {
			return arg == long || strings.HasPrefix(arg, long+"=") || arg == short && short != "-"
		})
		if at < 0 {
			return faults
		}
		args = slices.Delete(slices.Clone(args), at, at+1)
	}
}

// flagFault describes a fault of a flag of cmd in one line.
func flagFault(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := invalid.GetFlag()
		return badValue("--"+flag.Name, flag, invalid.GetValue(), invalid.Unwrap())
	}
	if bare, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		flag := bare.GetFlag()
		placeholder, _ := pflag.UnquoteUsage(flag)
		return fmt.Errorf("--%s has no value, want --%s %s", flag.Name, flag.Name, placeholder)
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if shorts := unknown.GetSpecifiedShortnames(); shorts != "" {
			if len(shorts) > 1 { // such as -max-depth instead of --max-depth
				return fmt.Errorf("unknown flag: -%s%s", shorts, didYouMean("--", shorts, flagNames(cmd.Flags())))
			}
			return fmt.Errorf("unknown flag: -%s", shorts)
		}
		name := unknown.GetSpecifiedName()
		if crawl, _, err := cmd.Find([]string{"crawl"}); !cmd.HasParent() && err == nil && crawl.Flags().Lookup(name) != nil {
			return fmt.Errorf("--%s is a flag of crawl, want %s crawl … --%s", name, program(), name)
		}
		return fmt.Errorf("unknown flag: --%s%s", name, didYouMean("--", name, flagNames(cmd.Flags())))
	}
	return err
}

// badValue returns an error of one line. It says why a value of a flag is not valid, and
// what a valid value is. The source of the value is, for example, --delay, CRAWLER_DELAY
// or "config.yaml:3: delay".
func badValue(source string, flag *pflag.Flag, text string, err error) error {
	separator, want := ", ", wanted(flag.Value.Type(), err)
	if !strings.HasPrefix(want, "want ") {
		separator = ": "
	}
	if slices.Contains(secretFlags, flag.Name) {
		return fmt.Errorf("%s is malformed%s%s (its value is not shown, as it may be secret)", source, separator, want)
	}
	return fmt.Errorf("%s is %q%s%s", source, text, separator, want)
}

// wanted describes the valid values of a flag of the type kind. The argument err is the
// error of the flag's Set method. If err begins with "want", it already is the description,
// as for flag types of this module.
func wanted(kind string, err error) string {
	said := strings.ReplaceAll(err.Error(), "\n", "; ")
	if strings.HasPrefix(said, "want ") {
		return said
	}
	switch kind {
	case "bool":
		return "want true or false"
	case "duration":
		return "want " + restrict.DurationWords
	case "int":
		return "want a whole number"
	case "uint", "uint64":
		return "want a whole number of 0 or more"
	case "float64":
		return "want a number"
	}
	return said
}

// argumentFault returns an error of one line about an argument that cmd does not accept.
// The argument err is the error that cobra returned.
func argumentFault(cmd *cobra.Command, err error) error {
	var name string
	if _, scan := fmt.Sscanf(err.Error(), "unknown command %q", &name); scan != nil {
		return err
	}
	if !cmd.HasParent() && strings.Contains(name, "://") {
		name = seed.Shown(name)
		return fmt.Errorf("%q is a URL, want a command before it: %s crawl %s", name, program(), shellQuote(name))
	}
	if cmd.HasAvailableSubCommands() {
		var commands []string
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				commands = append(commands, c.Name())
			}
		}
		return fmt.Errorf("unknown command %q%s", name, didYouMean("", name, commands))
	}
	fault := fmt.Sprintf("%q is an argument, want none with %s", name, cmd.CommandPath())
	if info, err := os.Stat(name); err == nil && info.IsDir() && cmd.Flags().Lookup("dir") != nil {
		fault += " (the directory of a crawl goes after --dir)"
	}
	return errors.New(fault)
}

func flagNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// maxSuggested is the largest number of names in a suggestion.
const maxSuggested = 3

// didYouMean returns the end of a message about an unknown name. It suggests names that
// contain the unknown name, that are a prefix of it, or that differ from it in a few
// letters. It writes prefix before each suggestion. If there is no suggestion, it returns
// "".
func didYouMean(prefix, unknown string, names []string) string {
	type candidate struct {
		name     string
		distance int
	}
	var close []candidate
	for _, name := range names {
		distance := editDistance(unknown, name)
		part := len(unknown) >= 3 && (strings.Contains(name, unknown) || strings.HasPrefix(unknown, name))
		if part || distance <= max(min(2, len(unknown)/2), len(unknown)/3) {
			close = append(close, candidate{prefix + name, distance})
		}
	}
	if close == nil {
		return ""
	}
	slices.SortStableFunc(close, func(a, b candidate) int { return a.distance - b.distance })
	var suggested []string
	for _, c := range close[:min(len(close), maxSuggested)] {
		suggested = append(suggested, c.name)
	}
	return ", did you mean " + strings.Join(suggested, " or ") + "?"
}

// editDistance returns how many letters must be added, removed or replaced to turn
// a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // the distances of a[:i] to each b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
