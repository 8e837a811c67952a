package robots

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestUseLines(t *testing.T) {
	for _, test := range []struct {
		name, file, path, want string
	}{
		{"a path", "User-agent: *\nContent-Usage: /a train-ai=n", "/ab", "Content-Usage /a train-ai=n"},
		{"another path", "User-agent: *\nContent-Usage: /a train-ai=n", "/b", ""},
		{"no path", "User-agent: *\nContent-Usage: train-ai=n", "/b", "Content-Usage / train-ai=n"},
		{"only a path", "User-agent: *\nContent-Usage: /\nContent-Usage: train-ai=n", "/b", "Content-Usage / ; Content-Usage / train-ai=n"},
		{"a tab after the path", "User-agent: *\nContent-Usage: /a\t train-ai=n", "/a", "Content-Usage /a train-ai=n"},
		{"any case of the name", "user-agent: *\ncontent-USAGE: /a train-ai=n", "/a", "Content-Usage /a train-ai=n"},
		{"a comment", "User-agent: *\nContent-Usage: /a train-ai=n # search=n", "/a", "Content-Usage /a train-ai=n"},
		{"the longest path wins, in any order", "User-agent: *\nContent-Usage: /a/b train-ai=y\nContent-Usage: /a train-ai=n\nContent-Usage: / search=n", "/a/b/c",
			"Content-Usage /a/b train-ai=y"},
		{"equal paths", "User-agent: *\nContent-Usage: /a train-ai=n\nContent-Usage: /a train-ai=y", "/a/b",
			"Content-Usage /a train-ai=n; Content-Usage /a train-ai=y"},
		{"the same line twice", "User-agent: *\nContent-Usage: /a x=n\nContent-Usage: /a x=n", "/a", "Content-Usage /a x=n"},
		{"paths of equal length", "User-agent: *\nContent-Usage: /a* train-ai=n\nContent-Usage: /ab search=n", "/ab",
			"Content-Usage /a* train-ai=n; Content-Usage /ab search=n"},
		{"a wildcard", "User-agent: *\nContent-Usage: /*.pdf$ train-ai=n", "/x/y.pdf", "Content-Usage /*.pdf$ train-ai=n"},
		{"a wildcard at the end", "User-agent: *\nContent-Usage: /*.pdf$ train-ai=n", "/x/y.pdf?q", ""},
		{"escapes", "User-agent: *\nContent-Usage: /caf%c3%a9 train-ai=n", "/caf%C3%A9", "Content-Usage /caf%C3%A9 train-ai=n"},
		{"an escaped letter", "User-agent: *\nContent-Usage: /%61 train-ai=n", "/a", "Content-Usage /a train-ai=n"},
		{"a query", "User-agent: *\nContent-Usage: /a?u=https%3A%2F%2Fx train-ai=n", "/a?u=https://x", "Content-Usage /a?u=https://x train-ai=n"},
		{"lengths count for each name alone", "User-agent: *\nContent-Usage: /a/b train-ai=n\nContent-Signal: ai-train=no", "/a/b",
			"Content-Usage /a/b train-ai=n; Content-Signal / ai-train=no"},
		{"a signal with a path", "User-agent: *\nContent-Signal: /a ai-train=no\nContent-Signal: search=yes", "/a/b", "Content-Signal /a ai-train=no"},

		{"our group", "User-agent: *\nContent-Usage: / train-ai=n\nUser-agent: crawler\nAllow: /", "/", ""},
		{"our group, in two parts", "User-agent: crawler\nContent-Usage: / a=n\nUser-agent: x\nDisallow: /\nUser-agent: Crawler\nContent-Usage: / b=n", "/",
			"Content-Usage / a=n; Content-Usage / b=n"},
		{"another group", "User-agent: other\nContent-Usage: / train-ai=n", "/", ""},
		{"before the first group", "Content-Usage: / train-ai=n\nContent-Signal: search=no\nUser-agent: *\nAllow: /", "/", ""},
		{"a shared group", "User-agent: other\nUser-agent: crawler\nContent-Usage: / train-ai=n", "/", "Content-Usage / train-ai=n"},
		{"a usage ends the list of names", "User-agent: crawler\nContent-Usage: / a=n\nUser-agent: other\nContent-Usage: / b=n", "/", "Content-Usage / a=n"},
		{"a signal does not end it", "User-agent: other\nContent-Signal: search=no\nUser-agent: crawler\nContent-Signal: search=yes", "/", "Content-Signal / search=yes"},

		{"a licence of the file", "License: https://e.example/l?a%c3=b\nUser-agent: *\nAllow: /\nUser-agent: crawler\nDisallow: /x", "/", "License  https://e.example/l?a%C3=b"},
		{"a licence of our group", "User-agent: crawler\nLicense: https://e.example/l\nAllow: /\n\nUser-agent: *\nLicense: https://e.example/m", "/", "License  https://e.example/l"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rules := Parse([]byte(test.file), "crawler")
			if got := useText(rules.UseLines(test.path)); got != test.want {
				t.Errorf("UseLines(%q) = %q, want %q", test.path, got, test.want)
			}
			binary, err := rules.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			var read Rules
			if err := read.UnmarshalBinary(binary); err != nil {
				t.Fatal(err)
			}
			if got := useText(read.UseLines(test.path)); got != test.want {
				t.Errorf("after a round trip, UseLines(%q) = %q, want %q", test.path, got, test.want)
			}
		})
	}
}

// useText returns lines as one text. Their order has no meaning, but is always the same.
func useText(lines []UseLine) string {
	var texts []string
	for _, line := range lines {
		texts = append(texts, line.Name+" "+line.Path+" "+line.Value)
	}
	return strings.Join(texts, "; ")
}

// TestUseLinesAllowRequests checks that lines about the use of content change no rule, except that a
// Content-Usage ends the list of the crawlers of its group, as draft-ietf-aipref-attach says.
func TestUseLinesAllowRequests(t *testing.T) {
	for file, allowed := range map[string]bool{
		"User-agent: crawler\nContent-Usage: / train-ai=n":                                   true,
		"User-agent: crawler\nContent-Signal: search=no\nUser-agent: other\nDisallow: /":     false,
		"User-agent: crawler\nContent-Usage: / train-ai=n\nUser-agent: other\nDisallow: /":   true,
		"User-agent: crawler\nContent-Usage: / train-ai=n\nUser-agent: crawler\nDisallow: /": false,
	} {
		if got, _ := Parse([]byte(file), "crawler").Allowed("/a"); got != allowed {
			t.Errorf("%q: allowed is %v, want %v", file, got, allowed)
		}
	}
}

func TestUseLinesAreBounded(t *testing.T) {
	var file strings.Builder
	file.WriteString(strings.Repeat("License: https://e.example/"+"\n", 3) + "License:\n")
	for i := range 100 {
		file.WriteString("License: https://e.example/" + strings.Repeat("x", i) + "\n")
	}
	file.WriteString("User-agent: *\n")
	for i := range 3000 {
		file.WriteString("Content-Usage: /" + strings.Repeat("y", i%50) + " a" + strings.Repeat("z", i/50) + "=n\n")
	}
	rules := Parse([]byte(file.String()), "crawler")
	if n := len(rules.useLines); n > maxUseLines+maxLicences || n < maxUseLines {
		t.Errorf("%d lines are kept, want %d and at most %d licences", n, maxUseLines, maxLicences)
	}
	if bytes := rules.Bytes(); bytes < 1000*100 {
		t.Errorf("1,000 lines take %d bytes, want more", bytes)
	}
}

func TestUseLinesTooLarge(t *testing.T) {
	var file strings.Builder
	file.WriteString("User-agent: *\n")
	for i := range 900 {
		file.WriteString("Content-Usage: /" + randomText(i, 90) + " a=n\n")
	}
	if _, err := Parse([]byte(file.String()), "crawler").AppendBinary(nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("the error is %v, want ErrTooLarge", err)
	}
}

// randomText returns letters that do not compress well.
func randomText(seed, size int) string {
	text := make([]byte, size)
	state := uint64(seed)*2654435761 + 1
	for i := range text {
		state = state*6364136223846793005 + 1442695040888963407
		text[i] = 'a' + byte(state>>59)%26
	}
	return string(text)
}

func TestReadUseLinesRefusesDamage(t *testing.T) {
	line := UseLine{Name: ContentUsage, Path: "/a", Value: "train-ai=n"}
	whole := line.append(nil)
	if lines, err := readUseLines(whole); err != nil || !slices.Equal(lines, []UseLine{line}) {
		t.Fatalf("%+v, %v, want the line", lines, err)
	}
	for end := 1; end < len(whole); end++ {
		if _, err := readUseLines(whole[:end]); !errors.Is(err, ErrBinary) {
			t.Errorf("the first %d bytes: %v, want ErrBinary", end, err)
		}
	}
	if _, err := readUseLines([]byte{byte(len(useNames)), 0, 0}); !errors.Is(err, ErrBinary) {
		t.Errorf("an unknown name: %v, want ErrBinary", err)
	}
}
