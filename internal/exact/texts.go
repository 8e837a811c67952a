package exact

import (
	"errors"
	"regexp"
)

// className matches a rule with the name of its class before it.
var className = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]*):\s*(.*)$`)

// Named reports whether text has the name of a class and then a rule, such as
// "gov: host=*.gov".
func Named(text string) bool { return className.MatchString(text) }

// ParseTexts parses the rules of settings and flags. Each text is either the name of a
// class and a rule, as in Named, or a list of rules without names. The error names all
// faults.
func ParseTexts(texts []string) (*Rules, error) {
	var rules []Rule
	var errs []error
	for _, text := range texts {
		if named := className.FindStringSubmatch(text); named != nil {
			rules = append(rules, Rule{Name: named[1], Text: named[2]})
			continue
		}
		some, err := ParseRules(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, rule := range some.rules {
			rules = append(rules, rule.Rule)
		}
	}
	made, err := NewRules(rules...)
	return made, errors.Join(append(errs, err)...)
}
