package redisstore

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/redisbits"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestLongURLsCountMore: the URLs of a group of asks have at most about 2 MiB, however long they
// are.
func TestLongURLsCountMore(t *testing.T) {
	for _, length := range []int{10, 500, 2000, frontier.MaxURLBytes} {
		o := &offering{asks: make([]ask, 10_000)}
		for i := range o.asks {
			o.asks[i].item.URL = strings.Repeat("x", length)
		}
		fits := maxGroupAsks * len(o.asks) / o.size()
		if bytes := fits * length; bytes > maxGroupAsks*maxAskBytes || length < maxAskBytes && fits != maxGroupAsks {
			t.Errorf("URLs of %d bytes: %d of them, with %d bytes, are decided together", length, fits, bytes)
		}
	}
}

// TestPartsOfGroup: a group that is a little too large is decided at once, and the parts of a larger one have nearly the
// same size.
func TestPartsOfGroup(t *testing.T) {
	for _, c := range []struct{ size, parts, part int }{
		{0, 1, 1}, {1, 1, 1}, {maxGroupAsks, 1, maxGroupAsks}, {maxGroupAsks + 10, 1, maxGroupAsks + 10}, {maxGroupAsks * 3 / 2, 2, maxGroupAsks * 3 / 4},
		{10 * maxGroupAsks, 10, maxGroupAsks}, {10*maxGroupAsks + 5, 10, maxGroupAsks + 1},
	} {
		part := partSize(c.size)
		if parts := max(1, (c.size+part-1)/part); part != c.part || parts != c.parts {
			t.Errorf("a group of %d is decided in %d parts of %d, want %d of %d", c.size, parts, part, c.parts, c.part)
		}
	}
}

// TestEarlyAnswer: a caller all of whose offers the filter knows does not wait for the script that adds those of others in
// the same group.
func TestEarlyAnswer(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	s := openStore(t, config(server))
	mustAdd(t, s, testPages("a.test", 0, 10))
	offeringOf := func(from, to int) *offering {
		o := newOffering(to - from)
		for _, offer := range testPages("a.test", from, to) {
			a := ask{print: s.hasher.Fingerprint(offer.URL), host: s.hasher.Fingerprint(offer.Host), part: s.partition(offer.Host)}
			a.item = offer.Item(a.print)
			o.asks = append(o.asks, a)
		}
		return o
	}
	known, fresh := offeringOf(0, 10), offeringOf(10, 20)
	known.asks = slices.DeleteFunc(known.asks, func(a ask) bool { return a.print.Sampled() })
	g := &group{s: s, node: s.nodes.single, reader: redisbits.NewReader(s.nodes.single.client)}
	ep, err := s.epochOf(t.Context(), s.nodes.single)
	if err != nil {
		t.Fatal(err)
	}
	early := false
	s.nodes.single.client.AddHook(beforeScript{ep.sha[addScript], func() {
		select {
		case <-known.answered:
			early = true
		default:
		}
		select {
		case <-fresh.answered:
			t.Error("the new offers are answered before the script")
		default:
		}
	}})
	g.decide(t.Context(), []*offering{known, fresh})
	<-fresh.answered
	if !early {
		t.Error("the known offers waited for the script")
	}
	for _, o := range []*offering{known, fresh} {
		for i := range o.asks {
			if a := &o.asks[i]; a.err != nil || a.verdict.Answer == 0 || !a.done {
				t.Errorf("%s: %v, %v", a.item.URL, a.verdict, a.err)
			}
		}
	}
}

// beforeScript is a hook that calls a function before each pipeline that has a script.
type beforeScript struct {
	sha  string
	call func()
}

func (beforeScript) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (beforeScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b beforeScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Name() == "evalsha" && c.Args()[1] == b.sha }) {
			b.call()
		}
		return next(ctx, cmds)
	}
}
