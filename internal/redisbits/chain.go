package redisbits

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// Chain is one filter under one hash tag: layers of segments, and a record with the number
// of layers. A Chain caches that number. Other processes can add a layer. Every add script
// notices a new layer (see Block), and Refresh reads the number again. A Chain must be
// opened with Open or Create. It is safe for concurrent use.
//
// The keys in Redis begin with the prefix. It is followed by "f" for the record, by "f0.0"
// for segment 0 of layer 0, and so on. The record is a hash. Its field head is the common
// part of all headers, layers is the number of layers, and keys1, keys2, … are the numbers of
// keys added to the first, second, … layer.
type Chain struct {
	layout *Layout
	header header
	prefix string

	keyed   atomic.Pointer[[]*keyedLayer] // oldest first; replaced, never changed
	born    time.Time
	checked atomic.Int64 // when the headers were last verified, in ns after born; 0 means never
}

// keyedLayer is a layer of one chain: its shape and its keys.
type keyedLayer struct {
	*Layer
	keys     []string
	args     []any    // keys as arguments of commands
	headers  []string // of the segments
	layers   string   // number of layers including this one, in decimal
	capacity string   // in decimal, for add scripts; empty means no limit
}

// Chain returns the chain of a partition of the filter or crawl that id identifies. The keys
// of the chain begin with prefix, which contains the hash tag, such as "{c1:7}". The chain is
// not open yet.
func (l *Layout) Chain(id ID, partition int, prefix string) *Chain {
	c := &Chain{layout: l, header: header{params: l.params, id: id, partition: partition}, prefix: prefix, born: time.Now()}
	c.keyed.Store(&[]*keyedLayer{})
	return c
}

// Filter returns a Filter that consists of this chain, which must be open. It is for
// callers that do not choose the chain of a key by its fingerprint.
func (c *Chain) Filter(client redis.UniversalClient) *Filter {
	return newFilter(client, c.layout, []*Chain{c})
}

// Record returns the key of the chain's record.
func (c *Chain) Record() string { return c.prefix + "f" }

// SegmentKey returns the key of a segment.
func (c *Chain) SegmentKey(layer, segment int) string {
	return c.Record() + strconv.Itoa(layer) + "." + strconv.Itoa(segment)
}

// Layers returns the cached number of layers. The number only grows, unless the server loses
// its latest changes. It identifies the state of the chain: an answer that a key is absent is
// valid only while the chain has no layers besides those that were read.
func (c *Chain) Layers() int { return len(*c.keyed.Load()) }

// keyedLayer returns the layer with this number and its keys.
func (c *Chain) keyedLayer(number int) *keyedLayer {
	t := &keyedLayer{Layer: c.layout.Layer(number), layers: strconv.Itoa(number + 1)}
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

// setLayers sets the number of layers. It can be smaller than before, because a server
// may have lost its latest changes.
func (c *Chain) setLayers(layers int) {
	for {
		old := c.keyed.Load()
		if len(*old) == layers {
			return
		}
		keyed := (*old)[:min(len(*old), layers):min(len(*old), layers)]
		for len(keyed) < layers {
			keyed = append(keyed, c.keyedLayer(len(keyed)))
		}
		if c.keyed.CompareAndSwap(old, &keyed) {
			return
		}
	}
}

// Create creates the record of the chain, unless it exists, and its first layer. It must
// not be called for a chain that was created before and lost, because it would replace the
// lost chain by an empty one. So the caller must store elsewhere that the chain was created.
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
	c.setLayers(layers[0])
	if layers[0] == 0 {
		return c.Extend(ctx, client, 0)
	}
	return c.Verify(ctx, client)
}

// Open reads the state of the chain and verifies it. It returns an ErrFilterLost if the
// chain is missing, unfinished, or has lost a segment, and an ErrParamsMismatch if it has
// other Params or another id.
func (c *Chain) Open(ctx context.Context, client redis.UniversalClient) error {
	if err := c.Refresh(ctx, client); err != nil {
		return err
	}
	return c.Verify(ctx, client)
}

// Refresh reads the number of layers of the chain.
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
		c.setLayers(counts[i])
	}
	return nil
}

// readRecords checks the records of chains and returns their numbers of layers.
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

// parseRecord checks the fields head and layers, which are nil if they are missing.
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

// Verify reads the header and the length of every known segment of the chain. It returns
// an ErrFilterLost if a segment is missing or too short, and an ErrParamsMismatch if a
// segment belongs to another chain.
func (c *Chain) Verify(ctx context.Context, client redis.UniversalClient) error {
	return verify(ctx, client, []*Chain{c})
}

// verifyDue reports whether verifyEvery has passed since the headers were last verified.
// Only one of several callers gets true.
func (c *Chain) verifyDue(now time.Time) bool {
	since, last := int64(now.Sub(c.born)), c.checked.Load()
	return (last == 0 || since-last > int64(verifyEvery)) && c.checked.CompareAndSwap(last, max(since, 1))
}

// verify verifies chains, with one pipeline at a time.
func verify(ctx context.Context, client redis.UniversalClient, chains []*Chain) error {
	type segment struct {
		layer  *keyedLayer
		number int
	}
	var segments []segment
	for _, c := range chains {
		for _, t := range *c.keyed.Load() {
			for number := range t.Segments {
				segments = append(segments, segment{t, number})
			}
		}
	}
	for some := range slices.Chunk(segments, maxPipeline/2) {
		pipe := client.Pipeline()
		heads, lengths := make([]*redis.StringCmd, len(some)), make([]*redis.IntCmd, len(some))
		for i, s := range some {
			key := s.layer.keys[s.number]
			heads[i], lengths[i] = pipe.GetRange(ctx, key, 0, HeaderBytes-1), pipe.StrLen(ctx, key)
		}
		if cmds, err := pipe.Exec(ctx); err != nil {
			return pipeError(err, cmds)
		}
		for i, s := range some {
			key, length, want := s.layer.keys[s.number], lengths[i].Val(), s.layer.SegmentBytes
			if err := checkHeader(key, []byte(heads[i].Val()), []byte(s.layer.headers[s.number])); err != nil {
				return err
			}
			if length != want {
				return fmt.Errorf("key %q has %d bytes, want %d: %w", key, length, want, bloomstore.ErrFilterLost)
			}
		}
	}
	return nil
}

// Extend adds a layer to a chain whose last layer was full. The argument layers is the
// number of layers that the chain had at that time. Extend creates the missing segments of
// the new layer. From then on keys are added only to the new layer. If another caller has
// added the layer already, Extend only reads the new number of layers.
func (c *Chain) Extend(ctx context.Context, client redis.UniversalClient, layers int) error {
	if c.Layers() != layers {
		return c.Refresh(ctx, client)
	}
	number := layers // counting from 0
	if !c.layout.Grows(number) {
		return fmt.Errorf("redisbits: %q cannot grow beyond layer %d", c.Record(), number-1)
	}
	reply, err := c.begin(ctx, client, number)
	if err == nil && reply == "lost" {
		// The new segments are lost, because the server lost its latest changes. They were
		// empty, so they are created again, once.
		reply, err = c.begin(ctx, client, number)
	}
	if err != nil {
		return err
	}
	if reply != "begun" && reply != "stale" {
		return fmt.Errorf("begin layer %d of %q: %w", number, c.Record(), fault(reply))
	}
	return c.Refresh(ctx, client)
}

// begin creates the missing segments of the layer with this number, and begins the layer. It
// returns the reply of begin_layer.lua, or "stale" if another process has begun the layer.
func (c *Chain) begin(ctx context.Context, client redis.UniversalClient, number int) (reply string, err error) {
	t := c.keyedLayer(number)
	for segment, key := range t.keys {
		reply, err := makeSegment.Run(ctx, client, []string{c.Record(), key}, number, t.headers[segment], t.SegmentBytes-1).Text()
		switch {
		case err != nil:
			return "", fmt.Errorf("make key %q: %w", key, lostType(err))
		case reply == "stale":
			return reply, nil
		case reply != "made" && reply != "there":
			return "", fmt.Errorf("make key %q: %w", key, fault(reply))
		}
	}
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

// Delete removes the chain in steps that are short for the server: the segments one by one,
// from the newest layer to the oldest, and then the record. It also removes a chain that has
// lost parts.
func (c *Chain) Delete(ctx context.Context, client redis.UniversalClient) error {
	layers, err := client.HGet(ctx, c.Record(), "layers").Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("delete %q: %w", c.Record(), lostType(err))
	}
	for number := max(layers, c.Layers()); number >= 0; number-- {
		if !c.layout.Grows(number) {
			continue
		}
		for _, key := range c.keyedLayer(number).keys {
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

// fault returns the error for a script's reply: ErrFilterLost for 'lost', and
// ErrParamsMismatch for 'foreign'. The error of Verify has more details.
func fault(reply string) error {
	switch reply {
	case "lost":
		return bloomstore.ErrFilterLost
	case "foreign":
		return bloomstore.ErrParamsMismatch
	}
	return fmt.Errorf("redisbits: a script replied %q", reply)
}

// pipeError returns the error of the first failed command of a pipeline, with the key of that
// command. The argument err is the error of the pipeline.
func pipeError[C redis.Cmder](err error, cmds []C) error {
	for _, cmd := range cmds {
		if cmd.Err() != nil {
			return fmt.Errorf("%s of key %q: %w", cmd.Name(), cmd.Args()[1], lostType(cmd.Err()))
		}
	}
	return err
}

// lostType turns an error about a key that is not a string into an ErrFilterLost.
func lostType(err error) error {
	if err != nil && redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("%w: %w", bloomstore.ErrFilterLost, err)
	}
	return err
}
