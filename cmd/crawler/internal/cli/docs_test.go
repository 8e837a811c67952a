package cli

import (
	goversion "go/version"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const repository = "../../../.."

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the code blocks of a page in one language.
func blocks(t *testing.T, name, language string) (all []string) {
	t.Helper()
	for _, part := range strings.Split(readText(t, name), "```"+language+"\n")[1:] {
		block, _, closed := strings.Cut(part, "```")
		if !closed {
			t.Fatalf("%s has a block that does not end: %q", name, part)
		}
		all = append(all, block)
	}
	return all
}

// TestReadmeQuotesExamples: the code in the README and in the guide to the library is
// part of an example, where it is indented by one or two levels. So the code compiles.
func TestReadmeQuotesExamples(t *testing.T) {
	t.Parallel()
	var examples strings.Builder
	for _, name := range []string{
		"crawl/example_test.go", "crawl/crawltest/example_test.go", "bench/library/main.go", "fetcher/example_test.go", "frontier/localstore/example_test.go", "bloomstore/membits/example_test.go", "sizing/example_test.go",
	} {
		examples.WriteString(readText(t, name))
	}
	quoted := append(blocks(t, "README.md", "go"), blocks(t, "docs/guide/library.md", "go")...)
	if len(quoted) == 0 {
		t.Error("README.md and docs/guide/library.md have no Go code")
	}
	deeper := regexp.MustCompile(`(?m)^(.)`)
	for _, block := range quoted {
		once := deeper.ReplaceAllString(block, "\t$1")
		twice := deeper.ReplaceAllString(once, "\t$1") // for the body of a loop
		if !strings.Contains(examples.String(), once) && !strings.Contains(examples.String(), twice) {
			t.Errorf("README.md or docs/guide/library.md has code that is in no example:\n%s", block)
		}
	}
}

// pages returns the names of four main documents and of all pages in docs except proofs.md.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	err := fs.WalkDir(os.DirFS(repository), "docs", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" && name != "docs/proofs.md" {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDocumentedCommands: every command and flag in a command line of the documents exists.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	lines := 0
	for _, page := range pages(t) {
		for _, block := range slices.Concat(blocks(t, page, "sh"), blocks(t, page, "console"), blocks(t, page, "text")) {
			for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", "")) {
				line, _, _ = strings.Cut(strings.TrimSpace(line), " |") // another program follows the bar
				words := strings.Fields(strings.TrimPrefix(line, "$ "))
				if len(words) < 2 || words[0] != "crawler" {
					continue
				}
				lines++
				root := newRoot(streams{})
				root.InitDefaultHelpCmd()
				cmd, rest, err := root.Find(words[1:])
				if err != nil {
					t.Errorf("%s: %s: %v", page, line, err)
					continue
				}
				for _, word := range rest {
					name, isFlag := strings.CutPrefix(word, "--")
					name, _, _ = strings.Cut(name, "=")
					if isFlag && cmd.Flags().Lookup(name) == nil {
						t.Errorf("%s: %s: no flag --%s", page, line, name)
					}
				}
			}
		}
	}
	if lines < 50 {
		t.Errorf("found %d command lines, want 50 or more", lines)
	}
}

// TestDocumentedFlags: every flag that the text of a document names is a flag of some
// command.
func TestDocumentedFlags(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	var note func(cmd *cobra.Command)
	note = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		for _, below := range cmd.Commands() {
			note(below)
		}
	}
	note(newRoot(streams{}))
	for _, page := range pages(t) {
		for _, found := range regexp.MustCompile("`--([a-z][a-z-]*)").FindAllStringSubmatch(readText(t, page), -1) {
			if !known[found[1]] {
				t.Errorf("%s names --%s, which is not a flag of any command", page, found[1])
			}
		}
	}
}

// TestDocumentedConfig: the config files in the documents are valid.
func TestDocumentedConfig(t *testing.T) {
	t.Parallel()
	var configs []string
	for _, page := range pages(t) {
		configs = append(configs, blocks(t, page, "yaml")...)
	}
	if len(configs) < 4 {
		t.Errorf("found %d config files, want 4 or more", len(configs))
	}
	for _, text := range configs {
		name := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		o := new(options)
		flags := crawlFlags(o)
		if err := flags.Set("config", name); err != nil {
			t.Fatal(err)
		}
		l, err := readLayers(t.Context(), flags, nil)
		if err != nil {
			t.Error(err)
		}
		if err := (&plan{options: o, layers: l, at: inDirectory("x.crawl")}).check(); err != nil {
			t.Error(err)
		}
	}
}

// TestDocumentedTests: if a document names a test with its folder, the test exists.
// Package archtest checks links.
func TestDocumentedTests(t *testing.T) {
	t.Parallel()
	named := 0
	for _, page := range pages(t) {
		for _, test := range regexp.MustCompile("`([a-z/]+)\\.(Test[A-Za-z]+)`").FindAllStringSubmatch(readText(t, page), -1) {
			named++
			if !hasTest(t, test[1], test[2]) {
				t.Errorf("%s names the test %s in %s, which does not exist", page, test[2], test[1])
			}
		}
	}
	if named < 50 {
		t.Errorf("found %d tests in the documents, want 50 or more", named)
	}
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+name+"(") {
			return true
		}
	}
	return false
}

// TestDockerfileBuildsThisModule: the image uses a Go version that go.mod accepts, and a
// target that the Makefile has.
func TestDockerfileBuildsThisModule(t *testing.T) {
	t.Parallel()
	image, wanted := readText(t, "Dockerfile"), readText(t, "go.mod")
	from := regexp.MustCompile(`(?m)^FROM golang:(\S+) AS build$`).FindStringSubmatch(image)
	least := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(wanted)
	if from == nil || least == nil || goversion.Compare("go"+from[1], "go"+least[1]) < 0 {
		t.Errorf("Dockerfile builds with %q, go.mod wants %q or later", from, least)
	}
	target := regexp.MustCompile(`(?m)^RUN make (\S+)`).FindStringSubmatch(image)
	if target == nil || !strings.Contains(readText(t, "Makefile"), "\n"+target[1]+":") {
		t.Errorf("Dockerfile runs make with the target %q, which the Makefile does not have", target)
	}
}
