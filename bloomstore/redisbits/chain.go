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
// Refresh learns. It is safe for concurrent use.
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
		number, made int // segments of layer number known to be there
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

// Record returns the key of the chain's record.
func (c *Chain) Record() string { return c.prefix + "f" }

// SegmentKey returns the key of a segment.
func (c *Chain) SegmentKey(layer, segment int) string {
	return c.Record() + strconv.Itoa(layer) + "." + strconv.Itoa(segment)
}

// Layers returns how many layers the chain is known to have. A chain only gets
// more, so this number is its identity in time: an answer "absent" was true of so
// many layers.
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

// know notes that the chain has so many layers, if that is news.
func (c *Chain) know(layers int) {
	for {
		old := c.tiers.Load()
		if len(*old) >= layers {
			return
		}
		longer := (*old)[:len(*old):len(*old)]
		for len(longer) < layers {
			longer = append(longer, c.tier(len(longer)))
		}
		if c.tiers.CompareAndSwap(old, &longer) {
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
	layers, err := c.read(ctx, client)
	if err != nil {
		return err
	}
	if layers == 0 {
		return c.Extend(ctx, client)
	}
	c.know(layers)
	return nil
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
	layers, err := c.read(ctx, client)
	if err != nil {
		return err
	}
	if known := c.Layers(); layers < known || layers == 0 {
		return fmt.Errorf("key %q counts %d layers, want %d or more: %w", c.Record(), layers, max(known, 1), bloomstore.ErrFilterLost)
	}
	c.know(layers)
	return nil
}

// read checks the record and returns how many layers it counts.
func (c *Chain) read(ctx context.Context, client redis.UniversalClient) (layers int, err error) {
	fields, err := client.HMGet(ctx, c.Record(), "head", "layers").Result()
	if err != nil {
		return 0, fmt.Errorf("read key %q: %w", c.Record(), lostType(err))
	}
	head, _ := fields[0].(string) // a field that is not there is nil
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
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("read %d headers: %w", len(checks), lostType(err))
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
// missing, and reports whether now all are there. Whoever adds calls it from half
// the capacity on, so that Extend finds the work done.
func (c *Chain) Prepare(ctx context.Context, client redis.UniversalClient) (ready bool, err error) {
	number := c.Layers()
	if !c.layout.Grows(number) {
		return true, nil
	}
	t := c.tier(number)
	c.next.Lock()
	defer c.next.Unlock()
	if c.next.number != number {
		c.next.number, c.next.made = number, 0
	}
	if c.next.made == t.Segments {
		return true, nil
	}
	made := c.next.made
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

// Extend gives the chain its next layer, making what is missing of it. If another
// caller does so at the same time, or has done so unknown to this process, that is
// the layer. The layers before are frozen from then on: no key is added to them.
func (c *Chain) Extend(ctx context.Context, client redis.UniversalClient) error {
	number := c.Layers()
	if !c.layout.Grows(number) {
		return fmt.Errorf("redisbits: %q ends with layer %d", c.Record(), number-1)
	}
	for ready := false; !ready; {
		var err error
		if ready, err = c.Prepare(ctx, client); err != nil {
			return err
		}
	}
	t := c.tier(number)
	args := []any{number, t.SegmentBytes}
	for _, header := range t.headers {
		args = append(args, header)
	}
	reply, err := beginLayer.Run(ctx, client, append([]string{c.Record()}, t.keys...), args...).Text()
	if err != nil {
		return fmt.Errorf("begin layer %d of %q: %w", number, c.Record(), lostType(err))
	}
	if reply != "begun" && reply != "stale" {
		return fmt.Errorf("begin layer %d of %q: %w", number, c.Record(), Fault(reply))
	}
	return c.Refresh(ctx, client)
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

// lostType makes an ErrFilterLost of an error that says that a key holds
// something that is no string of bits.
func lostType(err error) error {
	if err != nil && redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("%w: %w", bloomstore.ErrFilterLost, err)
	}
	return err
}
