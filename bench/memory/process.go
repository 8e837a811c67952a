package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/bench/sets"
	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/sizing"
)

// Child makes the command of a process that calls Hold with args.
type Child func(ctx context.Context, args ...string) *exec.Cmd

// held is what a child is told to hold.
type held struct {
	Kind   string  `json:"kind"`
	FPR    float64 `json:"fpr"`
	Keys   uint64  `json:"keys"`
	Copies uint64  `json:"copies"`
}

// The kinds of things that a child can hold.
const (
	kindFilter = "membits"
	kindURLs   = "Go map of URLs"
	kindPrints = "Go map of 16-byte fingerprints"
)

// resident is what a child answers: its memory before and after.
type resident struct {
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
}

// InProcess returns what a Go program can keep: our filter at each of rates, and
// maps. Each is weighed in a process of its own, which child starts.
func InProcess(child Child, rates []float64) (all []Subject) {
	for _, p := range rates {
		all = append(all, Subject{
			Name: fmt.Sprintf("membits, p = %g", p), Family: "membits", Ours: true, FPR: p, Add: 400 * time.Nanosecond,
			Weigh: weighChild(child, held{Kind: kindFilter, FPR: p}),
			Predict: exactly(func(n uint64) float64 {
				return float64(sizing.SizeMemory(sizing.Chain{Keys: n, FPR: p, Growth: true}, sizing.DefaultShards).Allocated)
			}),
		})
	}
	for _, kind := range []string{kindURLs, kindPrints} {
		all = append(all, Subject{Name: kind, Usual: true, Most: most, Add: time.Microsecond,
			Weigh: weighChild(child, held{Kind: kind}), Predict: exactStore(kind)})
	}
	return all
}

// exactStore returns the prediction of sizing.ExactStores for the store of that name.
func exactStore(name string) func(n uint64) (low, high float64) {
	return exactly(func(n uint64) float64 {
		for _, store := range sizing.ExactStores(n, sets.URLBytes) {
			if store.Name == name {
				return store.BytesPerKey * float64(n)
			}
		}
		panic("memory: sizing knows no " + name)
	})
}

// enough is how many bytes a process holds at least: beside so many, pages and
// what the runtime takes by itself do not count.
const enough = 64 << 20

// weighChild returns a Weigh that has a process of its own hold what.
func weighChild(child Child, what held) weigh {
	return func(ctx context.Context, n uint64, _ func(float64)) (Weight, error) {
		if runtime.GOOS != "linux" {
			return Weight{}, errors.New("resident memory is read from /proc, which only Linux has")
		}
		what.Keys = n
		what.Copies = uint64(math.Ceil(enough / what.least(n)))
		order, err := json.Marshal(what)
		if err != nil {
			return Weight{}, err
		}
		cmd := child(ctx, string(order))
		answer, err := cmd.Output()
		if err != nil {
			said := new(exec.ExitError)
			if errors.As(err, &said) {
				err = fmt.Errorf("%w: %s", err, said.Stderr)
			}
			return Weight{}, fmt.Errorf("hold %s: %w", order, err)
		}
		var rss resident
		if err := json.Unmarshal(answer, &rss); err != nil {
			return Weight{}, fmt.Errorf("hold %s: answer %q: %w", order, answer, err)
		}
		return Weight{Bytes: float64(rss.After-min(rss.Before, rss.After)) / float64(what.Copies), By: "RSS"}, nil
	}
}

// least is about what one copy takes.
func (h held) least(n uint64) float64 {
	if h.Kind == kindFilter {
		bits, _ := sizing.OptimalBits(n, h.FPR)
		return float64(bits) / 8
	}
	return 20 * float64(n)
}

// Hold is the child's part: it makes what order says, weighs itself before and
// after, and says so on out.
func Hold(order string, out io.Writer) error {
	var what held
	if err := json.Unmarshal([]byte(order), &what); err != nil {
		return fmt.Errorf("hold %q: %w", order, err)
	}
	before, err := anonymous()
	if err != nil {
		return err
	}
	copies := make([]any, what.Copies)
	for i := range copies {
		if copies[i], err = what.fill(uint64(i)); err != nil {
			return err
		}
	}
	after, err := anonymous()
	runtime.KeepAlive(copies)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(resident{before, after})
}

// fill makes one copy of n different keys, those of another copy are others.
func (h held) fill(copy uint64) (any, error) {
	links := urls(h.Keys, urlHosts)
	links.First = copy * h.Keys
	switch h.Kind {
	case kindFilter:
		filter, err := membits.New(membits.Config{Capacity: h.Keys, FPR: h.FPR})
		if err != nil {
			return nil, err
		}
		for i := range links.Len() {
			filter.Add(links.Print(i))
		}
		return filter, nil
	case kindURLs:
		known := make(map[string]struct{})
		for i := range links.Len() {
			known[links.Item(i).URL] = struct{}{}
		}
		return known, nil
	case kindPrints:
		known := make(map[bloomstore.Fingerprint]struct{})
		for i := range links.Len() {
			known[links.Print(i)] = struct{}{}
		}
		return known, nil
	}
	return nil, fmt.Errorf("hold %q: no such thing", h.Kind)
}

// anonymous returns the resident memory of this process that is no file's, when
// all garbage went back to the system.
func anonymous() (uint64, error) {
	debug.FreeOSMemory()
	const name = "RssAnon:"
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, name); found {
			kilobytes, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no %s", name)
}
