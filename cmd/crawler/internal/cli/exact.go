package cli

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// checkExact checks the flags that concern Postgres. It returns an error for each flag that
// is given without the --postgres or --sink postgres that it needs. It also returns an error
// if --postgres is given without --sink postgres and without --redis, or if two flags exclude
// each other.
func (o *options) checkExact() (errs []error) {
	switch {
	case o.crawl.Fixed.Sink == "postgres" && o.postgres == "":
		errs = append(errs, errors.New("--sink postgres needs --postgres"))
	case o.crawl.Fixed.Sink != "postgres" && o.postgres != "" && o.redis == "":
		errs = append(errs, errors.New("--postgres without --redis needs --sink postgres: the exact keys of a crawl in a directory are there"))
	}
	if o.crawl.Fixed.CDC == crawl.On && o.crawl.Fixed.Sink != "postgres" {
		errs = append(errs, errors.New("--cdc needs --sink postgres: it captures the rows of records"))
	}
	if len(o.crawl.Fixed.Windows) > 0 && o.redis != "" && o.postgres == "" {
		errs = append(errs, errors.New("--window with --redis needs --postgres: Redis does not note when a URL was finished"))
	}
	return errs
}

// parseWindows parses --window, whose names are those of classes in --exact.
func (o *options) parseWindows() (exact.Windows, error) {
	return exact.ParseWindows(strings.Join(o.crawl.Fixed.Windows, ","), o.exact.Rules)
}

// ruleList is a flag for the rules that choose exact URLs, which are URLs that the filter
// must never drop. The syntax is that of package exact. A rule can begin with the name of its
// class: "gov: host=*.gov".
type ruleList struct{ *exact.Rules }

var _ pflag.SliceValue = (*ruleList)(nil)

func (l *ruleList) Type() string { return "RULES" }

func (l *ruleList) String() string {
	if l.Rules == nil { // pflag calls String of a zero value
		return ""
	}
	return l.Rules.String()
}

func (l *ruleList) Set(text string) error { return l.Replace([]string{text}) }

func (l *ruleList) Append(text string) error { return l.Replace(append(l.GetSlice(), text)) }

// Replace implements pflag.SliceValue. Each text is one named rule, or a list of
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
