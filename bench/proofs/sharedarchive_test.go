package proofs

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// TestSharedArchive runs two workers of one crawl. Each worker keeps all answers in its own
// WARC files. Each record that `crawler export` writes must name the place of exactly one
// answer in the files of one worker. This answer must be exactly as it was served.
func TestSharedArchive(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	saw := &served{answers: make(map[string][]bodyServed)}
	web := serveSite(t, testweb.Config{
		Seed: seed, Hosts: sized(12, 100), Pages: sized(400, 20_000), Hardships: testweb.None, MeanBytes: 4 << 10, LargestShare: 0.1,
	}, func(answer http.Handler) http.Handler { return saw.wrap(withheld(100, 3, answer)) })
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	m := newTeam(t, server.URL(), rand.New(rand.NewPCG(seed, 11)),
		append(speedFlags(web), "--partitions", "16", "--concurrency", "2", "--save", "all", "--save-rotate", sized("64KiB", "2MiB"))...)
	m.run(2)

	written := m.export()
	compareRecords(t, web.Web, written)
	kept := keptAnswers(t, m.workersDir)
	pointed := 0
	for _, l := range parse(t, written) {
		if l.Status == 0 {
			continue
		}
		at := place{l.WARC, l.Offset}
		switch there := kept[at]; len(there) {
		case 1:
			pointed++
			if err := there[0].check(l, saw); err != nil {
				t.Errorf("%s at %+v: %v", l.URL, at, err)
			}
		default:
			t.Errorf("%s: %d answers at %+v, want 1", l.URL, len(there), at)
		}
	}
	figure(t, "answers", "%d records point to theirs", pointed)
}

// withheld returns a handler that answers the first requests immediately, so that a crawl
// finds the other hosts. It withholds the answers to later requests until n of these have
// come. If each worker makes fewer than n requests at once, this happens only when at
// least two workers crawl.
func withheld(first, n int64, answer http.Handler) http.Handler {
	var requests atomic.Int64
	enough := make(chan struct{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number := requests.Add(1)
		if number == first+n {
			close(enough)
		}
		if number > first {
			<-enough
		}
		answer.ServeHTTP(w, r)
	})
}

// keptAnswers returns the answers in the WARC files of the workers below dir, by place.
// Two workers can have answers at the same place of their files. Each worker must have
// some files.
func keptAnswers(t *testing.T, dir string) map[place][]warcRecord {
	t.Helper()
	workers, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(workers) != 2 {
		t.Fatalf("the directory has %q (%v), want the directories of two workers", workers, err)
	}
	kept := make(map[place][]warcRecord)
	for _, dir := range workers {
		files, err := filepath.Glob(filepath.Join(dir, "warc", "*"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no WARC files (%v)", filepath.Base(dir), err)
		}
		for _, file := range files {
			for _, r := range readWARC(t, file) {
				if r.fields["WARC-Type"] == "response" {
					at := place{fmt.Sprintf("warc/%s", filepath.Base(file)), r.offset}
					kept[at] = append(kept[at], r)
				}
			}
		}
	}
	return kept
}
