package size

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier"
)

// lookAt returns a LiveFunc for a crawl that has the given number of keys in a filter for
// 100,000 keys.
func lookAt(t *testing.T, keys int, added uint64, ran time.Duration) LiveFunc {
	t.Helper()
	filter, err := membits.New(membits.Config{Capacity: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	hasher := bloomstore.NewHasher(bloomstore.Key{1})
	for i := range keys {
		filter.Add(hasher.Fingerprint(fmt.Sprint(i)))
	}
	live := crawl.FilterState{Added: added, Ran: ran}
	for _, l := range filter.Stats().Layers {
		live.Layers = append(live.Layers, frontier.FilterLayer{Keys: l.Keys, Capacity: l.Capacity, Bits: l.Bits,
			Hashes: l.Hashes, Fill: l.Fill, FPR: l.FPR, Target: l.Target})
	}
	return func(_ context.Context, dir string) (crawl.FilterState, error) {
		if dir != "go.dev.crawl" {
			return crawl.FilterState{}, errors.New("no crawl in " + dir)
		}
		return live, nil
	}
}

func liveOf(look LiveFunc, args ...string) (string, error) {
	c := Command(look)
	var out strings.Builder
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(io.Discard)
	c.SilenceUsage, c.SilenceErrors = true, true
	err := c.Execute()
	return out.String(), err
}

func TestLiveFilter(t *testing.T) {
	// The layer for 100,000 keys is full, and the layer for 200,000 keys has 150,000.
	look := lookAt(t, 250_000, 100, 10*time.Second)
	text, err := liveOf(look, "--dir", "go.dev.crawl", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var r liveReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if r.Keys != 250_000 || r.Capacity != 300_000 || len(r.Layers) != 2 || r.Rate != 10 || r.FullIn != 5000 {
		t.Errorf("report %s\nwant 250,000 of 300,000 keys in two layers, 10 new keys a second, full in 5,000 s", text)
	}
	if math.Abs(r.Estimate-250_000) > 5*r.StdErr || r.StdErr <= 0 || r.StdErr > 500 { // 5σ; the filter is the same in each run
		t.Errorf("estimated %.1f ± %.1f, want 250,000", r.Estimate, r.StdErr)
	}
	if !(r.FPR > r.Layers[0].FPR && r.FPR < 1.2e-6) {
		t.Errorf("FPR = %g, want more than %g, the FPR of the first layer, and less than 1.2e-6", r.FPR, r.Layers[0].FPR)
	}
	for _, c := range []struct {
		look LiveFunc
		want string
	}{
		{look, "in 1h23m20s, at 10 new URLs a second"},
		{lookAt(t, 250_000, 0, time.Second), "no new URL since this run began"},
		{lookAt(t, 250_000, 0, 0), "no worker runs the crawl"},
	} {
		text, err := liveOf(c.look, "--dir", "go.dev.crawl")
		if err != nil || !strings.Contains(text, c.want) || !strings.Contains(text, "250,000 URLs of 300,000") {
			t.Errorf("error %v, want none, and %q in\n%s", err, c.want, text)
		}
	}
}

func TestLiveFaults(t *testing.T) {
	look := lookAt(t, 1, 0, 0)
	_, err := liveOf(look, "--dir", "go.dev.crawl", "--urls=10", "--fpr=0.1")
	for _, want := range []string{"leave out --urls", "leave out --fpr"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if _, err := liveOf(look, "--dir", "x"); err == nil || !strings.Contains(err.Error(), "no crawl in x") {
		t.Errorf("error %v, want that of the LiveFunc", err)
	}
}
