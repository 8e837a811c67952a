package canon

import "strings"

// Step is one change on the way from a seed to its canonical form.
type Step struct {
	Rule   Rule   `json:"rule"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Rule says in words what a Step did.
type Rule string

// The rules, in the order in which they are applied.
const (
	RuleSpace    Rule = "white space removed" // and control characters around the seed
	RuleScheme   Rule = "scheme added"        // of a seed without one
	RuleNormal   Rule = "normalised"          // scheme, host, port, slashes, dot segments, escapes
	RuleUserinfo Rule = "user and password removed"
	RuleFragment Rule = "fragment removed"
	RuleStripped Rule = "parameters stripped"
	RuleSorted   Rule = "query sorted"
)

// ExplainSeed returns what ParseSeed does to raw, step by step. Step.Before equals
// Step.After of the previous step. Step.After of the last step is the URL. The URL and
// the error are those of ParseSeed. If there is an error, the steps lead to the text that
// was refused. If raw is canonical, there are no steps.
func (c *Canonicalizer) ExplainSeed(raw string) ([]Step, URL, error) {
	e := explainer{text: raw}
	e.step(RuleSpace, trim(raw))
	e.step(RuleScheme, addScheme(e.text))
	e.step(RuleSpace, dropSpace(e.text))
	u, err := c.ParseSeed(raw)
	if err != nil {
		return e.steps, URL{}, err
	}
	// Without stripping and sorting, a URL can be longer than MaxBytes although u is not. In
	// this case the last steps do everything.
	if plain, err := bare.Parse(e.text); err == nil {
		userinfo, fragment := dropped(e.text)
		scheme := plain.Scheme() + "://"
		e.step(RuleNormal, scheme+userinfo+strings.TrimPrefix(plain.s, scheme)+fragment)
		e.step(RuleUserinfo, plain.s+fragment)
		e.step(RuleFragment, plain.s)
	}
	unsorted := Canonicalizer{strip: c.strip}
	if stripped, err := unsorted.Parse(e.text); err == nil {
		e.step(RuleStripped, stripped.s)
	}
	e.step(RuleSorted, u.s)
	return e.steps, u, nil
}

// bare strips no parameters and does not sort them.
var bare = new(Canonicalizer)

// explainer gathers the steps of one URL.
type explainer struct {
	text  string // the seed after all steps so far
	steps []Step
}

// step adds a step from e.text to result, unless both are equal.
func (e *explainer) step(rule Rule, result string) {
	if result != e.text {
		e.steps = append(e.steps, Step{Rule: rule, Before: e.text, After: result})
		e.text = result
	}
}

// dropped returns the userinfo of an absolute URL, with its "@", and the fragment, with its
// "#". The URL has no white space.
func dropped(s string) (userinfo, fragment string) {
	if i := strings.IndexByte(s, '#'); i >= 0 {
		s, fragment = s[:i], s[i:]
	}
	_, s, _ = cutScheme(s)
	s = strings.TrimLeft(s, `/\`)
	authority := s[:authorityLen(s)]
	return authority[:strings.LastIndexByte(authority, '@')+1], fragment
}

// addScheme adds the scheme that ParseSeed assumes to a trimmed seed.
func addScheme(seed string) string {
	if name, _, found := cutScheme(seed); hasScheme(seed) || found && isHTTP(name) {
		return seed
	}
	return "https://" + strings.TrimLeft(seed, "/")
}

// hasScheme reports whether a seed has "://" before its path, query and fragment.
func hasScheme(seed string) bool {
	scheme, _, found := strings.Cut(seed, "://")
	return found && !strings.ContainsAny(scheme, `/\?#`)
}

// dropSpace removes tabs and newlines, as the standard does inside a reference.
func dropSpace(s string) string { return strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s) }
