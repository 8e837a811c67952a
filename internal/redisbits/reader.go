package redisbits

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// Block is the Lua text at the beginning of each add script, which is a script that adds
// fingerprints to a chain. If the script has a line "#!lua …", Block comes after this line.
// It has local functions that test and set the bits of fingerprints, and that count the added
// fingerprints. The header of the text describes their use.
//
//go:embed block.lua
var Block string

// Ask is the look-up of one fingerprint: the question, its answer, and the arguments for
// the add script. Reader.Read sets all fields except Chain and Print. The block belongs to
// the Reader and is valid until the next call of Read.
type Ask struct {
	Chain *Chain
	Print bloomstore.Fingerprint

	// Known reports whether a layer claims Print. False means that Print is absent, unless
	// the chain has layers that Read did not know. The add script checks whether the chain
	// has such layers.
	Known bool

	keyed   []*keyedLayer // the layers in which Read looks up Print
	segment int
	from    int64 // offset of the block in the segment
	block   []byte
}

// newest returns the last of the layers in which Print was looked up.
func (a *Ask) newest() *keyedLayer { return a.keyed[len(a.keyed)-1] }

// Layers returns the number of layers in which Print was looked up. It is the argument of
// Chain.Extend if the newest layer is full.
func (a *Ask) Layers() int { return len(a.keyed) }

// Identity returns Layers in the form that bloom_begin takes.
func (a *Ask) Identity() string { return a.newest().layers }

// Capacity returns the capacity of the newest layer in the form that bloom_begin takes.
func (a *Ask) Capacity() string { return a.newest().capacity }

// Segment returns the key of the segment of the newest layer with the block of Print, and
// the header that bloom_segment compares.
func (a *Ask) Segment() (key, header string) {
	return a.newest().keys[a.segment], a.newest().headers[a.segment]
}

// Old returns the block as it was read. It belongs to the Reader.
func (a *Ask) Old() []byte { return a.block }

const (
	// maxPipeline is the maximum number of commands in one pipeline. The replies wait in
	// the server's memory until they are read.
	maxPipeline = 1024
	// verifyEvery is the time after which a read of blocks verifies the headers of a chain
	// again. So reads notice a replaced segment within that time.
	verifyEvery = time.Second
)

// Reader looks up fingerprints with one GETRANGE for each fingerprint and layer, in
// pipelines. It reuses its buffers, so a worker should keep one Reader. It is not safe for
// concurrent use.
type Reader struct {
	client redis.UniversalClient
	reads  []blockRead   // one for each command of a pipeline; never moved
	cmds   []redis.Cmder // the commands of the current pipeline
	blocks []byte        // all blocks of the last Read
	due    []*Chain      // chains to verify
}

// blockRead is one GETRANGE with memory for its arguments. The offsets are passed as
// pointers, which are converted to interfaces only once, so that go-redis does not allocate.
type blockRead struct {
	from, to int64
	args     [4]any
	cmd      redis.ZeroCopyStringCmd
}

// blockCmd is the command of a blockRead. go-redis repeats it if the connection fails, and
// reads the block into the same memory again.
type blockCmd struct{ *redis.ZeroCopyStringCmd }

func (blockCmd) NoRetry() bool { return false }

// NewReader returns a Reader that uses client.
func NewReader(client redis.UniversalClient) *Reader {
	r := &Reader{client: client, reads: make([]blockRead, maxPipeline)}
	for i := range r.reads {
		read := &r.reads[i]
		read.args = [4]any{"getrange", nil, &read.from, &read.to}
	}
	return r
}

// Read looks up the fingerprints of asks. Their chains must be open. Read also verifies the
// chains that were not verified for a second. It returns an ErrFilterLost if a block is
// missing. After an error no answer is valid.
func (r *Reader) Read(ctx context.Context, asks []Ask) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("read %d blocks: %w", len(asks), err)
	}
	r.plan(asks)
	blocks := r.blocks
	for len(asks) > 0 {
		n := r.fill(ctx, asks, &blocks)
		if err := r.exec(ctx); err != nil {
			r.postpone()
			return err
		}
		r.answer(asks[:n])
		asks = asks[n:]
	}
	return r.verify(ctx)
}

// plan determines the layers in which asks are looked up, and allocates memory for the blocks.
func (r *Reader) plan(asks []Ask) {
	room := 0
	now := time.Now()
	for i := range asks {
		ask := &asks[i]
		ask.keyed, ask.Known = *ask.Chain.keyed.Load(), false
		room += len(ask.keyed) * (ask.newest().BlockBytes + crlf)
		if ask.Chain.verifyDue(now) {
			r.due = append(r.due, ask.Chain)
		}
	}
	if cap(r.blocks) < room {
		r.blocks = make([]byte, room)
	}
	r.blocks = r.blocks[:cap(r.blocks)]
}

// crlf is the length of the line end after a block. If the memory of a block has room for
// the line end, go-redis needs no second read.
const crlf = 2

// fill makes the commands for the first elements of asks, as many as fit into a pipeline, and
// returns the number of these elements. The newest layer of a chain comes first. The commands
// will store the blocks in buffer.
func (r *Reader) fill(ctx context.Context, asks []Ask, buffer *[]byte) int {
	r.cmds = r.cmds[:0]
	for i := range asks {
		ask := &asks[i]
		if len(r.cmds)+len(ask.keyed) > maxPipeline {
			return i
		}
		for number, t := range slices.Backward(ask.keyed) {
			segment, from := t.Locate(ask.Print)
			block := (*buffer)[:t.BlockBytes+crlf]
			*buffer = (*buffer)[len(block):]
			if number == len(ask.keyed)-1 {
				ask.segment, ask.from, ask.block = segment, from, block[:t.BlockBytes:t.BlockBytes]
			}
			read := &r.reads[len(r.cmds)]
			read.from, read.to, read.args[1] = from, from+int64(t.BlockBytes)-1, t.args[segment]
			read.cmd = *redis.NewZeroCopyStringCmd(ctx, block, read.args[:]...)
			r.cmds = append(r.cmds, blockCmd{&read.cmd})
		}
	}
	return len(asks)
}

// exec runs the commands and checks that the replies are whole blocks.
func (r *Reader) exec(ctx context.Context) error {
	pipe := r.client.Pipeline()
	_ = pipe.BatchProcess(ctx, r.cmds...) // only queues
	if _, err := pipe.Exec(ctx); err != nil {
		return pipeError(err, r.cmds)
	}
	for i := range r.cmds {
		read := &r.reads[i]
		if got, want := int64(read.cmd.Val()), read.to-read.from+1; got != want {
			return shortBlock(read.args[1].(string), int(got), int(want))
		}
	}
	return nil
}

// shortBlock returns the error for a block that is cut off, because its segment is too short.
func shortBlock(key string, got, want int) error {
	return fmt.Errorf("key %q: %d bytes of a block, want %d: %w", key, got, want, bloomstore.ErrFilterLost)
}

// answer sets Known of asks from the blocks that the last pipeline has read.
func (r *Reader) answer(asks []Ask) {
	at := 0
	for i := range asks {
		ask := &asks[i]
		for _, t := range slices.Backward(ask.keyed) {
			if !ask.Known {
				ask.Known = t.Known(r.reads[at].cmd.Bytes(), ask.Print)
			}
			at++
		}
	}
}

func (r *Reader) verify(ctx context.Context) error {
	if len(r.due) == 0 {
		return nil
	}
	if err := verify(ctx, r.client, r.due); err != nil {
		r.postpone()
		return err
	}
	r.due = r.due[:0]
	return nil
}

// postpone marks the due chains as not verified, so that the next Read of any Reader verifies
// them.
func (r *Reader) postpone() {
	for _, c := range r.due {
		c.checked.Store(0)
	}
	r.due = r.due[:0]
}
