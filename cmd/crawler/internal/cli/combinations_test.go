package cli

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateCombinations = flag.Bool("update-combinations", false, "write testdata/combinations.txt anew")

// fixedValues has values for flags that are fixed when a crawl is created. laterValues has those of the
// others that a crawl keeps.
var fixedValues = map[string]string{
	"scope": "domain", "include": "a,b", "exclude": "x y", "max-depth": "0", "max-per-host": "5k", "host-key": "domain", "delay": "90s", "max-crawl-delay": "0",
	"latency-factor": "0", "host-concurrency": "3", "robots": "ignore", "urls": "1000", "fpr": "0.1%", "growth": "off", "exact": "gov: host=*.gov", "strip-param": "-",
	"keep-param": "sid", "sort-query": "true", "sitemaps": "true", "feeds": "true", "assets": "true", "max-hosts-per-domain": "0", "max-url-bytes": "0",
	"max-path-repeats": "7", "max-params": "0", "max-years-ahead": "-1",
}

// TestCombinations: what a new crawl, and then a later run that names only the crawl, does with forty combinations
// of flags and a config file is as in the file: each value that is not the default, and where it is from.
func TestCombinations(t *testing.T) {
	golden, err := filepath.Abs("testdata/combinations.txt")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	t.Setenv(urlsVariable, "")
	config := "hosts:\n  '*.x.test': {delay: 5s, concurrency: 2, budget: 100, robots: ignore, headers: {Cookie: hush}}\n" +
		"fields:\n  - url: /p/\n    fields: {name: h1}\ndelay: 3s\nrate: 2\nexact:\n  gov: host=*.gov\n"
	if err := os.WriteFile("c.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	values := maps.Clone(fixedValues)
	maps.Copy(values, laterValues)
	for _, name := range append(slices.Clone(sharedOnly), "ca", "window") {
		delete(values, name)
	}
	names := slices.Sorted(maps.Keys(values))
	defaults := map[string]string{"canonical": ""} // the form follows from the other values
	_, out, _ := run(t, "", "config", "http://a.test/")
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		defaults[words[0]] = strings.Join(words[1:len(words)-1], " ")
	}
	var got strings.Builder
	rng := rand.New(rand.NewPCG(1, 40))
	for n := range 40 {
		dir := fmt.Sprintf("%d.crawl", n)
		args := []string{"--dir", dir}
		for range rng.IntN(9) {
			name := names[rng.IntN(len(names))]
			args = append(args, "--"+name+"="+values[name])
		}
		if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--urls=") }) {
			args = append(args, "--urls=500") // the default filter of 24 MB would be counted and written in each run
		}
		if rng.IntN(3) == 0 {
			args = append(args, "--config", "c.yaml")
		}
		fmt.Fprintf(&got, "%q\n", args)
		code, _, errs := run(t, "", slices.Concat([]string{"crawl", "--max-time", "1ms"}, args, []string{"http://a.test/"})...)
		if code != exitOK && code != exitUnreached {
			fmt.Fprintf(&got, "  crawl: %d %s", code, errs)
		}
		for _, of := range [][]string{append(slices.Clone(args), "http://a.test/"), {"--dir", dir}} {
			code, out, errs := run(t, "", append([]string{"config"}, of...)...)
			if code != exitOK {
				t.Fatalf("%q: exit code %d: %s", of, code, errs)
			}
			for line := range strings.Lines(out) {
				words := strings.Fields(line)
				name, value, source := words[0], strings.Join(words[1:len(words)-1], " "), words[len(words)-1]
				if def, known := defaults[name]; !known || def != value && name != "dir" && name != "config" && name != "canonical" {
					fmt.Fprintf(&got, "  %s %s %s\n", name, strings.ReplaceAll(value, version(), "VERSION"), source)
				}
			}
			got.WriteByte('\n')
		}
	}
	if *updateCombinations {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("the effective values are not as before (-before +now):\n%s", diff)
	}
}
