// Package preference reads what the owners of pages say about the use of their content: in lines of
// robots.txt, in headers, in meta elements and in tdmrep.json.
//
// It owns the meaning of these sources and how they are combined. It does not fetch anything, does not
// find the lines of a robots.txt that apply to a path (package robots) or the elements of a page (package
// extract), and does not decide what follows from a preference (package fetcher). It is pure.
//
// The answer for a use is Refused if one source refuses it, else Allowed if one allows it, else Unknown.
// Among the three places for a TDM reservation only one counts: a meta element before a header before
// tdmrep.json.
package preference

import (
	"net/http"
	"slices"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/bloomfrontier/crawler/internal/extract"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// Drafts are the versions of the documents that this package follows. Records name them, because the
// documents change. To follow a newer version, read what it changes, change the code and its tests,
// then the version here, and docs/guide/preferences.md.
var Drafts = []string{
	"draft-ietf-aipref-vocab-08",  // 14 September 2026: the labels, their values, how statements are combined
	"draft-ietf-aipref-attach-05", // 19 August 2026: the header and the rule Content-Usage
	"tdmrep-2024-05-10",           // the final report of a W3C community group
}

// Use is a use of content, by its number in Answers.
type Use uint8

// The uses of draft-ietf-aipref-vocab.
const (
	TrainAI Use = iota
	AIUse
	Search
)

// Labels are the names of the uses, by Use.
var Labels = [...]string{TrainAI: "train-ai", AIUse: "ai-use", Search: "search"}

// ParseUse returns the use with this label, and whether there is one.
func ParseUse(label string) (use Use, is bool) {
	at := slices.Index(Labels[:], label)
	return Use(max(at, 0)), at >= 0
}

// Answer says whether an owner wants a use. A larger Answer wins over a smaller one.
type Answer uint8

// Values of Answer.
const (
	Unknown Answer = iota
	Allowed
	Refused
)

// String returns "unknown", "allowed" or "refused".
func (a Answer) String() string { return [...]string{"unknown", "allowed", "refused"}[a] }

// Answers has an Answer for each Use.
type Answers [len(Labels)]Answer

// Combine returns the more restrictive of two answers for each use.
func (a Answers) Combine(b Answers) Answers {
	for use := range a {
		a[use] = max(a[use], b[use])
	}
	return a
}

// Sources of statements.
const (
	RobotsUsage   = "robots_content_usage"
	RobotsSignal  = "robots_content_signal"
	RobotsLicense = "robots_license"
	HeaderUsage   = "header_content_usage"
	HeaderRobots  = "header_robots" // X-Robots-Tag
	MetaRobots    = "meta_robots"
	headerTDM     = "header_tdm_" // followed by reservation or policy, like those below
	metaTDM       = "meta_tdm_"
	fileTDM       = "file_tdm_"
)

// Statement is what one source says.
type Statement struct {
	Source  string
	Value   string  // as it was sent
	Answers Answers // all Unknown if another source overrules it
}

// Page is all that the owner of a page says about it. Its zero value says nothing.
type Page struct {
	Robots []Statement // of the lines of robots.txt for the path of the page; see Lines.Read
	Header http.Header
	Metas  []extract.Meta
	File   *Rule  // of tdmrep.json, for the path of the page; nil means none
	Token  string // the product token of the crawler
}

// Read returns the statements about the page, in a fixed order, and what they say together.
func (p *Page) Read() (all []Statement, sum Answers) {
	all = slices.Clone(p.Robots)
	if values := p.Header["Content-Usage"]; len(values) > 0 {
		all = append(all, Statement{HeaderUsage, strings.Join(values, ", "), usage(values...)})
	}
	if values := p.Header["X-Robots-Tag"]; len(values) > 0 && robots.HeaderHas(values, p.Token, isNoAI) {
		all = append(all, Statement{HeaderRobots, strings.Join(values, ", "), noAI(robots.HeaderHas(values, p.Token, isNoAIText))})
	}
	for _, meta := range p.Metas {
		if robots.MetaHas(meta.Name, meta.Content, p.Token, isNoAI) {
			all = append(all, Statement{MetaRobots, meta.Content, noAI(robots.MetaHas(meta.Name, meta.Content, p.Token, isNoAIText))})
		}
	}
	all = append(all, p.reservations()...)
	for i := range all {
		sum = sum.Combine(all[i].Answers)
	}
	return all, sum
}

// Wants reports whether a meta element can be about the use of content, for extract.Options.
func Wants(name, content, token string) bool {
	return isTDM(name) || robots.MetaHas(name, content, token, isNoAI)
}

// maxLines is how many lines Lines remembers.
const maxLines = 100

// Lines reads lines of robots.txt, and remembers what they say, because the same ones are often for all
// pages of a host. Its zero value is ready for use. It is not safe for concurrent use.
type Lines struct{ known map[robots.UseLine]Statement }

// Read returns a Statement for each line.
func (l *Lines) Read(lines []robots.UseLine) (all []Statement) {
	for _, line := range lines {
		s, is := l.known[line]
		if !is {
			s = lineStatement(line)
			if l.known == nil || len(l.known) >= maxLines {
				l.known = make(map[robots.UseLine]Statement)
			}
			l.known[line] = s
		}
		all = append(all, s)
	}
	return all
}

func lineStatement(line robots.UseLine) Statement {
	s := Statement{Value: strings.TrimSpace(line.Path + " " + line.Value)}
	switch line.Name {
	case robots.ContentUsage:
		s.Source, s.Answers = RobotsUsage, usage(line.Value)
	case robots.ContentSignal:
		s.Source, s.Answers = RobotsSignal, signal(line.Value)
	default:
		s.Source = RobotsLicense
	}
	return s
}

// usage reads a Content-Usage, a Dictionary of RFC 9651. If it is not valid, every answer is Unknown.
func usage(values ...string) (answers Answers) {
	members, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return answers
	}
	for use, label := range Labels {
		member, _ := members.Get(label)
		item, _ := member.(httpsfv.Item)
		switch item.Value {
		case httpsfv.Token("y"):
			answers[use] = Allowed
		case httpsfv.Token("n"):
			answers[use] = Refused
		}
	}
	return answers
}

// signals are the keys of Content-Signal.
var signals = [...]string{TrainAI: "ai-train", AIUse: "ai-input", Search: "search"}

// signal reads a Content-Signal. If it has a key twice, the more restrictive value counts.
func signal(value string) (answers Answers) {
	for part := range strings.SplitSeq(value, ",") {
		key, content, _ := strings.Cut(part, "=")
		for use, name := range signals {
			if !strings.EqualFold(strings.TrimSpace(key), name) {
				continue
			}
			switch content := strings.TrimSpace(content); {
			case strings.EqualFold(content, "yes"):
				answers[use] = max(answers[use], Allowed)
			case strings.EqualFold(content, "no"):
				answers[use] = Refused
			}
		}
	}
	return answers
}

// isNoAI reports whether a robots directive is noai or noimageai. Only noai is about the whole page.
func isNoAI(directive string) bool {
	return isNoAIText(directive) || strings.EqualFold(directive, "noimageai")
}

func isNoAIText(directive string) bool { return strings.EqualFold(directive, "noai") }

// noAI returns the answers of a robots directive.
func noAI(text bool) (answers Answers) {
	if text {
		answers[TrainAI] = Refused
	}
	return answers
}
