package settings

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestDefault: each row has a valid default, which is stored in the form in which the row has it.
func TestDefault(t *testing.T) {
	s := Default()
	for _, row := range Rows() {
		if got := row.Value(&s).Stored(); got != row.Default {
			t.Errorf("%s: the default %q is stored as %q", row.Name, row.Default, got)
		}
		if Find(row.Name) != row {
			t.Errorf("Find(%q) is another row", row.Name)
		}
	}
	if errs := s.Check(); errs != nil {
		t.Errorf("the defaults are not valid: %v", errs)
	}
	if Find("no-such") != nil {
		t.Error("Find finds a row that is not there")
	}
}

// TestEveryFieldHasRow: each row sets exactly one field, and each field has one row.
func TestEveryFieldHasRow(t *testing.T) {
	fields := make(map[string]string)
	for _, row := range Rows() {
		var changed []string
		for _, text := range append(slices.Clone(valueTexts), `[{"pattern":"a"}]`) {
			before := Default()
			after := Default()
			if row.Value(&after).Set(text) != nil || row.Value(&before).String() == row.Value(&after).String() {
				continue
			}
			changed = nil
			for i := range reflect.TypeFor[Settings]().NumField() {
				if !reflect.DeepEqual(reflect.ValueOf(before).Field(i).Interface(), reflect.ValueOf(after).Field(i).Interface()) {
					changed = append(changed, reflect.TypeFor[Settings]().Field(i).Name)
				}
			}
			break
		}
		if row.Name == "ca" { // its file must exist
			changed = []string{"CAFile"}
		}
		if len(changed) != 1 {
			t.Errorf("%s changes the fields %q, want one", row.Name, changed)
			continue
		}
		if other := fields[changed[0]]; other != "" {
			t.Errorf("%s and %s change the field %s", row.Name, other, changed[0])
		}
		fields[changed[0]] = row.Name
	}
	for i := range reflect.TypeFor[Settings]().NumField() {
		if name := reflect.TypeFor[Settings]().Field(i).Name; fields[name] == "" {
			t.Errorf("the field %s has no row", name)
		}
	}
}

// valueTexts are texts that are tried as the value of each setting: valid ones of each kind, and
// those at the edges of what is valid.
var valueTexts = []string{"https://bot.test",
	"", "-", "x", "-1", "-2", "0", "1", "1.5", "007", "1e3", "10k", "1,000", "100001", "1e13", "1e16", "NaN", "inf", "0x10",
	"1ns", "0s", "-1s", "90s", "1h", "2d", "512KiB", "1B", "1GB", "2PiB", "0.1%", "1 in 1000", "2", "1e-13", "absolute",
	"on", "off", "true", "false", "yes", "auto", "none", "all", "host", "domain", "any", "obey", "ignore", "Obey", "jsonl", "search", "full", "page", "postgres", "html",
	"a,b", "(", "[a-z]+", "*.a.test", "*=127.0.0.1:80", "a=1h", "seeds=24h", "host=*.gov", "gov: host=*.gov", "since=2 url=http://a.test/", "depth<=2", "Name: value", "Cookie: secret", "price=.price", "price",
	"10.0.0.0/8", "10.0.0.1", "[::1]:53", "http://proxy.test:1", "http://u:p@proxy.test:1/x", "ftp://x", "text/html", "a b", "utm_*", "*x", "a\nb", "25,6379", "65536", "2h..30d", "3h..1h", "80%", "0%",
}

// TestValues: what each setting makes of many texts is as in the golden file: the value and its stored form, or
// the error. A value that is set again from either form is the same.
func TestValues(t *testing.T) {
	var got strings.Builder
	for _, row := range Rows() {
		refused := make(map[string][]string)
		fmt.Fprintf(&got, "%s (default %s)\n", row.Name, row.Default)
		for _, text := range valueTexts {
			s := Default()
			before := row.Value(&s).Stored()
			if err := row.Value(&s).Set(text); err != nil {
				message := strings.ReplaceAll(err.Error(), fmt.Sprintf("%q", text), "TEXT")
				refused[message] = append(refused[message], fmt.Sprintf("%q", text))
				if after := row.Value(&s).Stored(); after != before {
					t.Errorf("%s: the text %q, which is refused, changes it to %q", row.Name, text, after)
				}
				continue
			}
			value := row.Value(&s)
			fmt.Fprintf(&got, "  %q: %s", text, value)
			if value.Stored() != value.String() {
				fmt.Fprintf(&got, " stored as %s", value.Stored())
			}
			got.WriteByte('\n')
			var again Settings
			if err := row.Value(&again).Adopt(value.Stored()); err != nil || row.Value(&again).Stored() != value.Stored() {
				t.Errorf("%s: the stored form %q of %q becomes %q (%v)", row.Name, value.Stored(), text, row.Value(&again).Stored(), err)
			}
		}
		for _, message := range slices.Sorted(maps.Keys(refused)) {
			fmt.Fprintf(&got, "  %s: %s\n", message, strings.Join(refused[message], " "))
		}
	}
	const golden = "testdata/values.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("values are not as before (-before +now):\n%s", diff)
	}
}
