package frontier

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestOutcomesAreTold: the documentation and the schema of events have the outcomes of the table, and
// the table has neither an outcome nor a letter twice. The test TestOutcomesHaveLetters of package
// pgstore checks the table in Postgres.
func TestOutcomesAreTold(t *testing.T) {
	var names, states []string
	for i, o := range Outcomes {
		names, states = append(names, string(o.Outcome)), append(states, fmt.Sprintf("%s %s", o.Outcome, o.State))
		if o.Outcome.State() != o.State || o.Outcome.Letter() != o.Letter || len(o.Letter) != 1 {
			t.Errorf("outcome %d is there twice, or has no letter: %v", i, o)
		}
		for _, other := range Outcomes[:i] {
			if other.Letter == o.Letter {
				t.Errorf("%s and %s have the letter %s", other.Outcome, o.Outcome, o.Letter)
			}
		}
	}
	page := read(t, "../docs/reference/url-states.md")
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (done|failed) \\|").FindAllStringSubmatch(page, -1) {
		told = append(told, row[1]+" "+row[2])
	}
	same(t, "docs/reference/url-states.md", told, states)

	enum := regexp.MustCompile(`"outcome": \{\s*"enum": \[([^]]*)\]`).FindStringSubmatch(read(t, "../docs/reference/events.schema.json"))
	if enum == nil {
		t.Fatal("the schema of events has no list of outcomes")
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == string(Stale) }) // it has no record
	same(t, "docs/reference/events.schema.json", regexp.MustCompile(`[a-z_]+`).FindAllString(enum[1], -1), names)
}

// TestBrokenOutcomes: the broken outcomes are those of targets without a page in docs/reference/links.md.
func TestBrokenOutcomes(t *testing.T) {
	var broken []string
	for _, o := range Outcomes {
		if o.Outcome.IsBroken() {
			broken = append(broken, string(o.Outcome))
		}
	}
	sentence := regexp.MustCompile(`(?s)A target has no page if the outcome of its last round is(.*?)\(\[url-states`).FindStringSubmatch(read(t, "../docs/reference/links.md"))
	if sentence == nil {
		t.Fatal("docs/reference/links.md does not say which URLs have no page")
	}
	told := regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(sentence[1], -1)
	names := make([]string, len(told))
	for i := range told {
		names[i] = told[i][1]
	}
	same(t, "docs/reference/links.md", names, broken)
	if Outcome("none").IsBroken() {
		t.Error("an outcome that is not in the table is broken")
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// same checks that two lists have the same elements.
func same(t *testing.T, where string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("%s has the outcomes %q, want %q", where, got, want)
	}
}
