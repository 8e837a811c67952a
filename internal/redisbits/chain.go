package redisbits

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
)

var (
	//go:embed make_segment.lua
	makeSegmentLua string
	//go:embed begin_layer.lua
	beginLayerLua string

	makeSegment = redis.NewScript(makeSegmentLua)
	beginLayer  = redis.NewScript(beginLayerLua)
)

// Chain is one filter under one hash tag: layers of segments, and a record that
// says how many layers there are. It caches that number: other processes may have
// begun another layer since, which every add script notices (see Block) and
// Refresh learns. It is safe for concurrent use, and open after Open or Create.
//
// Keys are the prefix and: "f" the record, a hash of the fields head (what all
// headers have in common), layers, and keys1, keys2, … (keys added to the first,
// second, … layer); "f0.0" segment 0 of layer 0, and so on.
type Chain struct {
	layout *Layout
	header header
	prefix string

	tiers   atomic.Pointer[[]*tier] // oldest first; replaced, never changed
	born    time.Time
	checked atomic.Int64 // when the headers were last looked at, in ns after born; 0 never
	next    struct {     // the layer after the last one
		sync.Mutex
		tier *tier
		made int // segments of it known to be there
	}
}

// tier is a layer of one chain: its shape and the keys that hold it.
type tier struct {
	*Layer
	keys     []string
	args     []any    // the same, ready for commands
	headers  []string // of the segments
	layers   string   // how many the chain has with this one, in decimal
	capacity string   // what add scripts call the capacity
}

// Chain returns the chain of the filter or crawl id whose keys begin with
// prefix. The prefix contains the hash tag, such as "{c1:7}", partition is its
// number. It is not open yet.
func (l *Layout) Chain(id ID, partition int, prefix string) *Chain {
	c := &Chain{layout: l, header: header{params: l.params, id: id, partition: partition}, prefix: prefix, born: time.Now()}
	c.tiers.Store(&[]*tier{})
	return c
}

// Filter returns the chain, which is open, as a Filter of its own: for who decides
// otherwise than by fingerprint which chain a key belongs to.
func (c *Chain) Filter(client redis.UniversalClient) *Filter {
	return newFilter(client, c.layout, []*Chain{c})
}

// Record returns the key of the chain's record.
func (c *Chain) Record() string { return c.prefix + "f" }

// SegmentKey returns the key of a segment.
func (c *Chain) SegmentKey(layer, segment int) string {
	return c.Record() + strconv.Itoa(layer) + "." + strconv.Itoa(segment)
}

// Layers returns how many layers the chain is known to have. Until the server
// loses some of its past, that number only grows: it is the chain's identity in
// time, and an answer "absent" was true of so many layers.
func (c *Chain) Layers() int { return len(*c.tiers.Load()) }

// tier returns the layer of that number with its keys.
func (c *Chain) tier(number int) *tier {
	t := &tier{Layer: c.layout.Layer(number), layers: strconv.Itoa(number + 1)}
	if c.layout.Grows(number + 1) {
		t.capacity = strconv.FormatUint(t.Capacity, 10)
	}
	h := c.header
	h.layer, h.hashes, h.segments = number, t.Hashes, t.Segments
	for h.segment = range t.Segments {
		key := c.SegmentKey(number, h.segment)
		t.keys, t.args = append(t.keys, key), append(t.args, key)
		t.headers = append(t.headers, string(h.encode()))
	}
	return t
}

// know notes that the chain has so many layers. They can be fewer than before:
// a server that lost its last second goes back in time.
func (c *Chain) know(layers int) {
	for {
		old := c.tiers.Load()
		if len(*old) == layers {
			return
		}
		tiers := (*old)[:min(len(*old), layers):min(len(*old), layers)]
		for len(tiers) < layers {
			tiers = append(tiers, c.tier(len(tiers)))
		}
		if c.tiers.CompareAndSwap(old, &tiers) {
			return
		}
	}
}

// Create makes the record of the chain, unless it is there, and its first layer.
// To call it for a chain that was created before and lost would make an empty one:
// who calls it remembers elsewhere that it was done.
func (c *Chain) Create(ctx context.Context, client redis.UniversalClient) error {
	_, err := client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.HSetNX(ctx, c.Record(), "head", c.header.head())
		tx.HSetNX(ctx, c.Record(), "layers", 0)
		return nil
	})
	if err != nil {
		return fmt.Errorf("make key %q: %w", c.Record(), lostType(err))
	}
	layers, err := readRecords(ctx, client, []*Chain{c})
	if err != nil {
		return err
	}
	c.know(layers[0])
	if layers[0] == 0 {
		return c.Extend(ctx, client, 0)
	}
	return c.Verify(ctx, client)
}

// Open learns what the chain has, and verifies it. A chain that is missing,
// unfinished, or has lost a segment is an ErrFilterLost, one of other Params or
// of another id an ErrParamsMismatch.
func (c *Chain) Open(ctx context.Context, client redis.UniversalClient) error {
	if err := c.Refresh(ctx, client); err != nil {
		return err
	}
	return c.Verify(ctx, client)
}

// Refresh learns how many layers the chain has.
func (c *Chain) Refresh(ctx context.Context, client redis.UniversalClient) error {
	return refresh(ctx, client, []*Chain{c})
}

// refresh refreshes chains in one pipeline.
func refresh(ctx context.Context, client redis.UniversalClient, chains []*Chain) error {
	counts, err := readRecords(ctx, client, chains)
	if err != nil {
		return err
	}
	for i, c := range chains {
		if counts[i] == 0 {
			return fmt.Errorf("key %q counts no layers: %w", c.Record(), bloomstore.ErrFilterLost)
		}
		c.know(counts[i])
	}
	return nil
}

// readRecords checks the records of chains and returns how many layers each counts.
func readRecords(ctx context.Context, client redis.UniversalClient, chains []*Chain) (layers []int, err error) {
	pipe := client.Pipeline()
	records := make([]*redis.SliceCmd, len(chains))
	for i, c := range chains {
		records[i] = pipe.HMGet(ctx, c.Record(), "head", "layers")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, pipeError(err, records)
	}
	layers = make([]int, len(chains))
	for i, c := range chains {
		if layers[i], err = c.parseRecord(records[i].Val()); err != nil {
			return nil, err
		}
	}
	return layers, nil
}

// parseRecord checks the fields head and layers, nil where they are missing.
func (c *Chain) parseRecord(fields []any) (layers int, err error) {
	head, _ := fields[0].(string)
	if err := checkHeader(c.Record(), []byte(head), c.header.head()); err != nil {
		return 0, err
	}
	count, _ := fields[1].(string)
	layers, err = strconv.Atoi(count)
	if err != nil || layers < 0 || layers > 0 && !c.layout.Grows(layers-1) {
		return 0, fmt.Errorf("key %q counts %q layers: %w", c.Record(), count, bloomstore.ErrFilterLost)
	}
	return layers, nil
}

// Verify reads the header and the length of every segment that the chain is
// known to have. One that is missing or shorter is an ErrFilterLost, a foreign
// one an ErrParamsMismatch.
func (c *Chain) Verify(ctx context.Context, client redis.UniversalClient) error {
	return verify(ctx, client, []*Chain{c})
}

// verifyDue reports, to one caller only, that the headers were not looked at for
// verifyEvery.
func (c *Chain) verifyDue(now time.Time) bool {
	since, last := int64(now.Sub(c.born)), c.checked.Load()
	return (last == 0 || since-last > int64(verifyEvery)) && c.checked.CompareAndSwap(last, max(since, 1))
}

// verify verifies chains in one pipeline after the other.
func verify(ctx context.Context, client redis.UniversalClient, chains []*Chain) error {
	pipe := client.Pipeline()
	var checks []func() error
	flush := func() error {
		if cmds, err := pipe.Exec(ctx); err != nil {
			return pipeError(err, cmds)
		}
		for _, check := range checks {
			if err := check(); err != nil {
				return err
			}
		}
		checks = checks[:0]
		return nil
	}
	for _, c := range chains {
		for _, t := range *c.tiers.Load() {
			for segment, key := range t.keys {
				stored, length := pipe.GetRange(ctx, key, 0, HeaderBytes-1), pipe.StrLen(ctx, key)
				checks = append(checks, func() error {
					if err := checkHeader(key, []byte(stored.Val()), []byte(t.headers[segment])); err != nil {
						return err
					}
					if length.Val() != t.SegmentBytes {
						return fmt.Errorf("key %q has %d bytes, want %d: %w", key, length.Val(), t.SegmentBytes, bloomstore.ErrFilterLost)
					}
					return nil
				})
				if len(checks) < maxPipeline/2 {
					continue
				}
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

// Prepare makes one segment of the layer that the chain will have next, if one is
// missing, and reports whether now all are there. Whoever adds calls it when the
// layer is Ahead, so that Extend finds the work done.
func (c *Chain) Prepare(ctx context.Context, client redis.UniversalClient) (ready bool, err error) {
	if number := c.Layers(); c.layout.Grows(number) {
		return c.prepare(ctx, client, number)
	}
	return true, nil
}

// prepare makes one segment of the layer of that number, if one is missing.
func (c *Chain) prepare(ctx context.Context, client redis.UniversalClient, number int) (ready bool, err error) {
	c.next.Lock()
	defer c.next.Unlock()
	if c.next.tier == nil || c.next.tier.Number != number {
		c.next.tier, c.next.made = c.tier(number), 0
	}
	t, made := c.next.tier, c.next.made
	if made == t.Segments {
		return true, nil
	}
	reply, err := makeSegment.Run(ctx, client, []string{c.Record(), t.keys[made]},
		number, t.headers[made], t.SegmentBytes-1).Text()
	switch {
	case err != nil:
		return false, fmt.Errorf("make key %q: %w", t.keys[made], lostType(err))
	case reply == "stale": // another process has begun that layer
		return true, nil
	case reply == "made" || reply == "there":
		c.next.made++
		return c.next.made == t.Segments, nil
	}
	return false, fmt.Errorf("make key %q: %w", t.keys[made], Fault(reply))
}

// Extend gives a chain that had so many layers, the last of them full, one more,
// making what is missing of it. If the chain has more by now, because another
// caller here or elsewhere did the same, that is it. The layers before are frozen
// from then on: no key is added to them.
func (c *Chain) Extend(ctx context.Context, client redis.UniversalClient, layers int) error {
	if c.Layers() != layers {
		return c.Refresh(ctx, client)
	}
	number := layers // counting from 0
	if !c.layout.Grows(number) {
		return fmt.Errorf("redisbits: %q ends with layer %d", c.Record(), number-1)
	}
	reply, err := c.begin(ctx, client, number)
	if err == nil && reply == "lost" {
		// Segments that were prepared are gone: the server went back in time, or
		// evicted them. Nothing was in them yet, so they are made again, once.
		c.next.Lock()
		c.next.made = 0
		c.next.Unlock()
		reply, err = c.begin(ctx, client, number)
	}
	if err != nil {
		return err
	}
	if reply != "begun" && reply != "stale" {
		return fmt.Errorf("begin layer %d of %q: %w", number, c.Record(), Fault(reply))
	}
	return c.Refresh(ctx, client)
}

// begin makes what is missing of the layer of that number and begins it. It
// returns what begin_layer.lua replies.
func (c *Chain) begin(ctx context.Context, client redis.UniversalClient, number int) (reply string, err error) {
	for ready := false; !ready; {
		if ready, err = c.prepare(ctx, client, number); err != nil {
			return "", err
		}
	}
	t := c.tier(number)
	args := []any{number, t.SegmentBytes}
	for _, header := range t.headers {
		args = append(args, header)
	}
	reply, err = beginLayer.Run(ctx, client, append([]string{c.Record()}, t.keys...), args...).Text()
	if err != nil {
		return "", fmt.Errorf("begin layer %d of %q: %w", number, c.Record(), lostType(err))
	}
	return reply, nil
}

// Delete removes the chain in steps that are short for the server: segment by
// segment, newest first, the record at last. It removes what there is of a chain
// that lost parts, too.
func (c *Chain) Delete(ctx context.Context, client redis.UniversalClient) error {
	layers, err := client.HGet(ctx, c.Record(), "layers").Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("delete %q: %w", c.Record(), lostType(err))
	}
	for number := max(layers, c.Layers()); number >= 0; number-- {
		if !c.layout.Grows(number) {
			continue
		}
		for _, key := range c.tier(number).keys {
			if err := client.Unlink(ctx, key).Err(); err != nil {
				return fmt.Errorf("delete key %q: %w", key, err)
			}
		}
	}
	if err := client.Unlink(ctx, c.Record()).Err(); err != nil {
		return fmt.Errorf("delete key %q: %w", c.Record(), err)
	}
	return nil
}

// ErrStale reports that a chain has begun another layer since it was asked:
// Refresh it and ask again.
var ErrStale = errors.New("redisbits: the chain has another layer by now")

// Fault returns what a script means by 'stale', 'lost' or 'foreign': ErrStale,
// ErrFilterLost or ErrParamsMismatch. Verify tells more of the last two.
func Fault(reply string) error {
	switch reply {
	case "stale":
		return ErrStale
	case "lost":
		return bloomstore.ErrFilterLost
	case "foreign":
		return bloomstore.ErrParamsMismatch
	}
	return fmt.Errorf("redisbits: a script replied %q", reply)
}

// pipeError names the key of the first of cmds that failed; err is what the
// pipeline returned.
func pipeError[C redis.Cmder](err error, cmds []C) error {
	for _, cmd := range cmds {
		if cmd.Err() != nil {
			return fmt.Errorf("%s of key %q: %w", cmd.Name(), cmd.Args()[1], lostType(cmd.Err()))
		}
	}
	return err
}

// lostType makes an ErrFilterLost of an error that says that a key holds
// something that is no string of bits.
func lostType(err error) error {
	if err != nil && redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("%w: %w", bloomstore.ErrFilterLost, err)
	}
	return err
}
