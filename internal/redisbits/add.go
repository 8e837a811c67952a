package redisbits

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
)

//go:embed add.lua
var addLua string

var addScript = redis.NewScript(Block + addLua)

// maxPerScript is the maximum number of fingerprints for one run of add.lua. A run with this
// number blocks the server for about a millisecond.
const maxPerScript = 256

// The answers of add.lua for one fingerprint.
const (
	wasKnown int64 = iota
	wasAdded
	layerFull
	blockLost // the block has lost bits since it was read
)

// AddIfAbsent implements bloomstore.Filter.
func (f *Filter) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	added := make([]bool, len(prints))
	err := f.eachWindow(ctx, prints, func(r *Reader, w *window) error {
		for len(w.asks) > 0 {
			if err := r.Read(ctx, w.asks); err != nil {
				return err
			}
			w.keep(func(ask *Ask, _ int) bool { return !ask.Known })
			if err := f.add(ctx, w, added); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("add %d fingerprints: %w", len(prints), err)
	}
	return added, nil
}

// add runs add.lua for each chain, with the fingerprints of w that belong to the chain. It
// leaves in w the fingerprints that must be sent again, because they were neither added nor
// known. Before add returns, it adds a layer to each full chain. If another process has added
// a layer to a chain, add reads the chain's number of layers.
func (f *Filter) add(ctx context.Context, w *window, added []bool) error {
	calls := w.calls()
	if err := f.run(ctx, calls); err != nil {
		return err
	}
	again := make([]bool, len(w.asks))
	for _, call := range calls {
		reply, err := call.parse()
		if err != nil {
			// Verify describes the fault of the chain better than the script.
			return cmp.Or(call.chain.Verify(ctx, f.client), err)
		}
		for i, answer := range reply.answers {
			at := call.asks[i]
			added[w.index[at]] = answer == wasAdded
			again[at] = answer == layerFull || answer == blockLost
		}
		if err := f.follow(ctx, call, reply); err != nil {
			return err
		}
	}
	i := -1
	w.keep(func(*Ask, int) bool { i++; return again[i] })
	return nil
}

// follow refreshes or extends the chain of a call if the reply says that it is necessary.
func (f *Filter) follow(ctx context.Context, call *addCall, reply addReply) error {
	switch {
	case reply.stale:
		return call.chain.Refresh(ctx, f.client)
	case reply.full:
		return call.chain.Extend(ctx, f.client, call.layers)
	}
	return nil
}

// addCall is one run of add.lua.
type addCall struct {
	chain    *Chain
	layers   int   // number of layers in which the fingerprints were looked up
	asks     []int // indices in window.asks
	segments map[int]int
	keys     []string
	args     []any // arguments of the script, without those of the fingerprints
	prints   []any // the other arguments: five for each fingerprint
	cmd      *redis.Cmd
}

// addCmd is a command that the client never sends twice, because the second reply would say
// that the fingerprints are known.
type addCmd struct{ *redis.Cmd }

func (addCmd) NoRetry() bool { return true }

// calls returns the calls that add the fingerprints of w. Each call has fingerprints of one
// chain, in the order of w. The calls use the blocks that the Reader has read, so they are
// valid until the Reader's next Read.
func (w *window) calls() []*addCall {
	var calls []*addCall
	open := make(map[*Chain]*addCall)
	for i := range w.asks {
		ask := &w.asks[i]
		call := open[ask.Chain]
		if call == nil || len(call.asks) == maxPerScript || call.layers != ask.Layers() {
			call = &addCall{
				chain: ask.Chain, layers: ask.Layers(), segments: make(map[int]int),
				keys: []string{ask.Chain.Record()}, args: []any{ask.Identity(), ask.Capacity()},
			}
			open[ask.Chain] = call
			calls = append(calls, call)
		}
		call.append(ask, i)
	}
	return calls
}

func (c *addCall) append(ask *Ask, index int) {
	at, named := c.segments[ask.segment]
	if !named {
		key, header := ask.Segment()
		c.keys, c.args = append(c.keys, key), append(c.args, header)
		at = len(c.keys) // Lua counts from 1
		c.segments[ask.segment] = at
	}
	c.asks = append(c.asks, index)
	last, new := ask.from+int64(len(ask.block))-1, ask.newest().Mask(bytes.Clone(ask.block), ask.Print)
	c.prints = append(c.prints, at, ask.from, last, ask.block, new)
}

// command returns a new command that runs the call. The arguments verb and script are EVALSHA
// and the hash of the script, or EVAL and its text.
func (c *addCall) command(ctx context.Context, verb, script string) addCmd {
	args := []any{verb, script, len(c.keys)}
	for _, key := range c.keys {
		args = append(args, key)
	}
	c.cmd = redis.NewCmd(ctx, append(append(args, c.args...), c.prints...)...)
	c.cmd.SetFirstKeyPos(3)
	return addCmd{c.cmd}
}

// run sends calls in one pipeline. If the server did not begin a call, run sends the call
// again. If the server did not begin it because it lacks the script, run sends the text of the
// script at once. If there was another reason (see notBegun), run pauses before it sends the
// call again.
func (f *Filter) run(ctx context.Context, calls []*addCall) error {
	pipe := f.client.Pipeline()
	for _, call := range calls {
		_ = pipe.Process(ctx, call.command(ctx, "evalsha", addScript.Hash())) // only queues
	}
	_, _ = pipe.Exec(ctx) // each call has its own error
	for _, call := range calls {
		if err := f.rerun(ctx, call); err != nil {
			return fmt.Errorf("add to %q: %w", call.chain.Record(), lostType(err))
		}
	}
	return nil
}

// rerun sends a call again until the server begins it, and returns the call's error.
// After lastPause it gives up.
func (f *Filter) rerun(ctx context.Context, call *addCall) error {
	verb, script := "evalsha", addScript.Hash()
	for pause := firstPause; ; {
		switch err := call.cmd.Err(); {
		case err == nil:
			return nil
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			verb, script = "eval", Block+addLua
		case notBegun(err) && pause <= lastPause:
			if err := sleep(ctx, pause); err != nil {
				return err
			}
			pause *= 2
		default:
			return err
		}
		_ = f.client.Process(ctx, call.command(ctx, verb, script)) // the error is the command's
	}
}

// firstPause is the pause before a call is sent again for the first time. Each further pause
// is twice as long as the one before, and no pause is longer than lastPause. All pauses
// together take about one second, because a cluster needs some time to move a slot or to fail
// over.
const (
	firstPause = 4 * time.Millisecond
	lastPause  = time.Second
)

// notBegun reports whether an error means that a script did not run at all. Either a node of a
// cluster is moving the slot or does not serve it, or a server is still loading its data.
func notBegun(err error) bool {
	for _, prefix := range []string{"TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "LOADING"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

func sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

// addReply is the reply of add.lua.
type addReply struct {
	stale   bool    // the chain has another number of layers, and nothing was written
	full    bool    // an answer is layerFull
	answers []int64 // one for each fingerprint
}

func (c *addCall) parse() (addReply, error) {
	switch reply := c.cmd.Val().(type) {
	case string:
		if reply != "stale" {
			return addReply{}, fmt.Errorf("add to %q: %w", c.chain.Record(), fault(reply))
		}
		again := make([]int64, len(c.asks))
		for i := range again {
			again[i] = blockLost
		}
		return addReply{stale: true, answers: again}, nil
	case []any:
		answers, err := c.cmd.Int64Slice()
		if err != nil || len(answers) != len(c.asks) {
			return addReply{}, fmt.Errorf("add %d fingerprints to %q: reply of %d integers: %w", len(c.asks), c.chain.Record(), len(reply), err)
		}
		parsed := addReply{answers: answers}
		for _, answer := range parsed.answers {
			parsed.full = parsed.full || answer == layerFull
		}
		return parsed, nil
	default:
		return addReply{}, fmt.Errorf("add to %q: reply of type %T", c.chain.Record(), reply)
	}
}
