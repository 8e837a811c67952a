package engine

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/record"
)

// TestSelectionOfContent: the last content of a page is found behind later checks, and a change is found although a later visit found none.
func TestSelectionOfContent(t *testing.T) {
	const all = `{"url":"a","round":0,"outcome":"ok","bytes":5,"change":"new","fetched_at":"2026-11-01T00:00:00Z"}
{"url":"a","round":1,"outcome":"ok","bytes":6,"change":"changed","fetched_at":"2026-11-10T00:00:00Z"}
{"url":"a","round":2,"outcome":"not_modified","bytes":0,"change":"unchanged","fetched_at":"2026-11-20T00:00:00Z"}
{"url":"b","round":0,"outcome":"ok","bytes":5,"change":"new","fetched_at":"2026-11-01T00:00:00Z"}
{"url":"b","round":1,"outcome":"client_error","bytes":0,"change":"gone","fetched_at":"2026-11-20T00:00:00Z"}
{"url":"c","round":0,"outcome":"ok","bytes":5,"fetched_at":"2026-11-09T00:00:00Z"}
`
	lines := func(yield func([]byte, error) bool) {
		for line := range strings.Lines(all) {
			if !yield([]byte(line), nil) {
				return
			}
		}
	}
	key := regexp.MustCompile(`"url":"(.)","round":(.)`)
	since := time.Date(2026, 11, 5, 0, 0, 0, 0, time.UTC)
	for want, s := range map[string]Selection{
		"a2 b1 c0":          {},
		"a1 b0 c0":          {Content: true},
		"a1 b1 c0":          {ChangedSince: since},
		"a1 c0":             {ChangedSince: since, Content: true},
		"a0 a1 b0 b1 c0":    {ChangedSince: since.AddDate(0, -1, 0), AllRounds: true},
		"b1":                {ChangedSince: since.AddDate(0, 0, 10)},
		"a0 a1 a2 b0 b1 c0": {AllRounds: true},
	} {
		chosen := s.content(lines)
		if !s.AllRounds {
			var err error
			if chosen, err = record.Latest(t.Context(), chosen, t.TempDir()); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for line, err := range chosen {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, key.ReplaceAllString(key.FindString(string(line)), "$1$2"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%+v selects %q, want %q", s, got, want)
		}
	}
}
