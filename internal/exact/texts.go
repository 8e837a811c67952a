package exact

import (
	"errors"
	"regexp"
)

// className matches the name before a rule.
var className = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]*):\s*(.*)$`)

// Named reports whether text is a rule after the name of its class, such as "gov: host=*.gov".
func Named(text string) bool { return className.MatchString(text) }

// ParseTexts parses the rules of settings and flags: each text is a rule after the
// name of its class, or a list of rules without names.
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
		rules = append(rules, some.Given()...)
	}
	made, err := NewRules(rules...)
	return made, errors.Join(append(errs, err)...)
}
