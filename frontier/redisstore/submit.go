package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/redisbits"
)

var _ frontier.Submitter = (*Store)(nil)

// Keys of a chunk expire after its TTL. Each is named after the first 16 bytes of the chunk's id.
//
// submission is a hash in one partition, with the fields below. verdicts is a hash in each partition of the
// chunk's lines: a letter by the number of the line, or the progress of a retry.
func (p *partition) submission(chunk string) string { return p.tag + "n" + chunk }
func (p *partition) verdicts(chunk string) string   { return p.tag + "v" + chunk }

// Fields of partition.submission. The first call stores the digest and the refusals. The answer is stored last, after every
// partition has its verdicts.
const (
	chunkDigest  = "digest"
	chunkRefused = "refused" // see frontier.AppendVerdicts; the zero Verdict stands for a line that is offered
	chunkAnswer  = "answer"  // the same with all verdicts, or the number of URLs that a retry queued
)

// Fields of partition.verdicts of a retry.
const (
	retryMark  = "mark" // ms: only items that had failed by then are queued again
	retryCount = "n"    // how many were queued again
)

// line is the line of a chunk that an ask belongs to.
type line struct {
	chunk  string // see partition.verdicts; empty means none
	number int
}

// chunkCall is a call of Submit or RetryOnce in progress.
type chunkCall struct {
	*Store
	frontier.Chunk
	name string     // in the names of keys
	home *partition // has the answer
}

func (s *Store) chunkCall(c frontier.Chunk) *chunkCall {
	number := binary.BigEndian.Uint64(c.ID[24:]) % uint64(len(s.parts))
	chunk, _, _ := exact.ParseLine(exact.NewLine(c.ID, 0, ""))
	return &chunkCall{s, c, chunk, s.parts[number]}
}

// read returns the fields of the chunk. They are empty if there are none.
func (c *chunkCall) read(ctx context.Context) (refused, answer string, err error) {
	fields, err := c.client.HMGet(ctx, c.home.submission(c.name), chunkDigest, chunkRefused, chunkAnswer).Result()
	return c.parse(ctx, fields, err)
}

func (c *chunkCall) parse(ctx context.Context, fields []any, err error) (refused, answer string, _ error) {
	if err != nil {
		return "", "", c.classify(ctx, err)
	}
	if fields[0] == nil {
		return "", "", nil
	}
	if text(fields[0]) != string(c.Digest[:]) {
		return "", "", frontier.ErrOtherPayload
	}
	if fields[2] != nil {
		answer = text(fields[2])
	}
	return text(fields[1]), answer, nil
}

// begin stores the digest and the refusals, unless an earlier call has, and returns what is stored.
func (c *chunkCall) begin(ctx context.Context, mine []byte) (refused, answer string, err error) {
	key := c.home.submission(c.name)
	var fields *redis.SliceCmd
	cmds, err := c.client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.HSetNX(ctx, key, chunkDigest, c.Digest[:])
		tx.HSetNX(ctx, key, chunkRefused, mine)
		tx.PExpire(ctx, key, c.TTL)
		fields = tx.HMGet(ctx, key, chunkDigest, chunkRefused, chunkAnswer)
		return nil
	})
	crash.Point("chunk begun")
	return c.parse(ctx, fields.Val(), txError(cmds, err))
}

// end stores the answer, unless another call has, and returns the stored one.
func (c *chunkCall) end(ctx context.Context, mine []byte) (answer string, err error) {
	key := c.home.submission(c.name)
	got := answers{epochs: make(map[*partition]*epoch)}
	n, err := c.nodeOf(ctx, c.home)
	if err != nil {
		return "", err
	}
	got.rely(c.home, n.epoch.Load())
	var stored *redis.StringCmd
	cmds, err := c.client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.HSetNX(ctx, key, chunkDigest, c.Digest[:]) // again, because it can have expired
		tx.HSetNX(ctx, key, chunkRefused, "")
		tx.HSetNX(ctx, key, chunkAnswer, mine)
		tx.PExpire(ctx, key, c.TTL)
		stored = tx.HGet(ctx, key, chunkAnswer)
		return nil
	})
	if err = txError(cmds, err); err != nil {
		return "", c.classify(ctx, err)
	}
	crash.Point("chunk answered")
	if c.cfg.Wait > 0 {
		err = c.replicated(ctx, got)
	}
	return stored.Val(), err
}

// Answered implements frontier.Submitter.
func (s *Store) Answered(ctx context.Context, chunk frontier.Chunk) (verdicts []frontier.Verdict, answered bool, err error) {
	_, answer, err := s.chunkCall(chunk).read(ctx)
	if err != nil || answer == "" {
		return nil, false, err
	}
	verdicts, err = frontier.ParseVerdicts([]byte(answer))
	return verdicts, true, err
}

// Keep implements frontier.Submitter.
func (s *Store) Keep(ctx context.Context, chunk frontier.Chunk, answer string) (kept string, err error) {
	c := s.chunkCall(chunk)
	if _, kept, err = c.read(ctx); kept != "" || err != nil || answer == "" {
		return kept, err
	}
	return c.end(ctx, []byte(answer))
}

// Submit implements frontier.Submitter. No step holds all partitions. The step that queues a line, in add.lua, also stores the verdict on
// it, and counts it. A repeat offers only lines without a verdict; if two calls do so at once, the script decides which of
// them queues the line. The answer is stored last. It depends on the verdicts only.
func (s *Store) Submit(ctx context.Context, chunk frontier.Chunk, lines []frontier.Line) (verdicts []frontier.Verdict, repeated bool, err error) {
	c := s.chunkCall(chunk)
	mine := make([]frontier.Verdict, len(lines))
	for i := range lines {
		reason := lines[i].Refused
		if reason == "" {
			reason = refusal(&lines[i].Offer)
		}
		if reason != "" {
			mine[i] = frontier.Verdict{Answer: frontier.Refused, Reason: reason}
		}
	}
	refused, answer, err := c.begin(ctx, frontier.AppendVerdicts(nil, mine))
	if err != nil {
		return nil, false, err
	}
	if answer != "" {
		verdicts, err = frontier.ParseVerdicts([]byte(answer))
		return verdicts, true, err
	}
	if verdicts, err = frontier.ParseVerdicts([]byte(refused)); err != nil || len(verdicts) != len(lines) {
		return nil, false, fmt.Errorf("redisstore: a chunk of %d lines has %d refusals: %w", len(lines), len(verdicts), err)
	}
	got, err := c.offer(ctx, lines, verdicts)
	if err != nil {
		return nil, false, err
	}
	if s.cfg.Wait > 0 {
		if err := s.replicated(ctx, got); err != nil {
			return nil, false, err
		}
	}
	if answer, err = c.end(ctx, frontier.AppendVerdicts(nil, verdicts)); err != nil {
		return nil, false, err
	}
	verdicts, err = frontier.ParseVerdicts([]byte(answer))
	return verdicts, false, err
}

// offer decides the lines that have no verdict yet, and sets their verdicts. Of equal URLs, the first is offered, and the verdicts on the
// others follow from its verdict.
func (c *chunkCall) offer(ctx context.Context, lines []frontier.Line, verdicts []frontier.Verdict) (got answers, err error) {
	first := make(map[bloomstore.Fingerprint]int)
	copies := make(map[int]int) // from a line to the first with its URL
	var open []int
	for i := range lines {
		if verdicts[i].Answer != 0 {
			continue
		}
		print := c.hasher.Fingerprint(lines[i].URL)
		if same, found := first[print]; found {
			copies[i] = same
			continue
		}
		first[print] = i
		open = append(open, i)
	}
	more := make(map[int]int) // how many copies of a line there are
	for _, same := range copies {
		more[same]++
	}
	if open, err = c.readVerdicts(ctx, lines, open, verdicts); err != nil {
		return got, err
	}
	if got, err = c.decide(ctx, lines, open, more, verdicts); err != nil {
		return got, err
	}
	for i, same := range copies {
		if verdicts[i] = verdicts[same]; verdicts[i].Answer == frontier.Added {
			verdicts[i].Answer = frontier.Seen
		}
	}
	return got, nil
}

// readVerdicts sets the stored verdicts on lines, and returns the lines that have none.
func (c *chunkCall) readVerdicts(ctx context.Context, lines []frontier.Line, numbers []int, verdicts []frontier.Verdict) (open []int, err error) {
	var parts []*partition
	of := make(map[*partition]map[string]string)
	for _, i := range numbers {
		if p := c.partition(lines[i].Host); of[p] == nil {
			parts, of[p] = append(parts, p), map[string]string{}
		}
	}
	stored, err := pipelined(ctx, c.client, parts, func(pipe redis.Pipeliner, p *partition) *redis.MapStringStringCmd {
		return pipe.HGetAll(ctx, p.verdicts(c.name))
	})
	if err != nil {
		return nil, c.classify(ctx, err)
	}
	for i, p := range parts {
		of[p] = stored[i].Val()
	}
	for _, i := range numbers {
		if letter := of[c.partition(lines[i].Host)][strconv.Itoa(i)]; letter != "" {
			verdicts[i] = letterVerdicts[letter[0]]
		} else {
			open = append(open, i)
		}
	}
	return open, nil
}

// decide offers lines, and sets their verdicts. The calls of the script are not mixed with those of other callers.
func (c *chunkCall) decide(ctx context.Context, lines []frontier.Line, open []int, copies map[int]int, verdicts []frontier.Verdict) (got answers, err error) {
	got.epochs = make(map[*partition]*epoch)
	offers, names := make([]frontier.Offer, len(open)), make([]string, len(open))
	for j, i := range open {
		offers[j], names[j] = lines[i].Offer, exact.NewLine(c.Chunk.ID, i, lines[i].Submission)
	}
	var decided exact.Decisions
	if c.cfg.Exact != nil {
		if decided, err = c.cfg.Exact.DecideLines(ctx, c.hasher, offers, names); err != nil {
			return got, err
		}
		if c.cfg.Exact.Stale(decided) {
			return got, fmt.Errorf("%w: the exact set was too slow", frontier.ErrUnavailable)
		}
	}
	asks := make(map[*node]*offering)
	for j, i := range open {
		a := c.newAsk(&offers[j], decisionAt(decided.Each, j))
		a.line, a.copies, a.ttl, a.index = line{c.name, i}, copies[i], c.TTL, j
		n, err := c.nodeOf(ctx, a.part)
		if err != nil {
			return got, err
		}
		if asks[n] == nil {
			asks[n] = newOffering(len(open))
		}
		asks[n].asks = append(asks[n].asks, a)
	}
	got.verdicts, got.parts = make([]frontier.Verdict, len(open)), make([]*partition, len(open))
	for n, o := range asks {
		g := &group{s: c.Store, node: n, reader: redisbits.NewReader(n.client), generation: c.seen.generation()}
		g.decide(ctx, []*offering{o})
		for i := range o.asks {
			if err := o.asks[i].err; err != nil {
				return got, err
			}
		}
		if err := c.take(&got, o); err != nil {
			return got, err
		}
	}
	crash.Point("offered")
	for j, i := range open {
		verdicts[i] = got.verdicts[j]
	}
	if c.cfg.Exact != nil {
		answers := exact.Answers{}
		c.cfg.Exact.Collect(answers, decided, got.verdicts)
		c.cfg.Exact.Settle(ctx, answers)
	}
	return got, nil
}

// RetryOnce implements frontier.Submitter. Each step of a partition counts in the partition what it queues, and items that fail after the first
// call has begun there stay failed. So a repeat queues the others. The number of failed exact URLs whose window is over is counted after
// each of them was offered, so a crash in between can make it too low by one.
func (s *Store) RetryOnce(ctx context.Context, chunk frontier.Chunk, of frontier.Failures) (n int, repeated bool, err error) {
	c := s.chunkCall(chunk)
	_, answer, err := c.begin(ctx, nil)
	if err != nil {
		return 0, false, err
	}
	if answer == "" {
		r := &retry{Store: s, of: of, once: c}
		if _, err := r.run(ctx); err != nil {
			return 0, false, err
		}
		counts, err := pipelined(ctx, s.client, s.parts, func(pipe redis.Pipeliner, p *partition) *redis.StringCmd {
			return pipe.HGet(ctx, p.verdicts(c.name), retryCount)
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, false, s.classify(ctx, err)
		}
		for _, count := range counts {
			some, _ := strconv.Atoi(count.Val()) // none if there is no field
			n += some
		}
		if answer, err = c.end(ctx, strconv.AppendInt(nil, int64(n), 10)); err != nil {
			return 0, false, err
		}
	} else {
		repeated = true
	}
	n, err = strconv.Atoi(answer)
	return n, repeated, err
}

// mark returns until when, in ms, an item of a partition must have failed to be queued again. The first call sets it.
func (c *chunkCall) mark(ctx context.Context, p *partition) (int64, error) {
	now, err := c.millis(ctx, p)
	if err != nil {
		return 0, err
	}
	key := p.verdicts(c.name)
	var stored *redis.StringCmd
	cmds, err := c.client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.HSetNX(ctx, key, retryMark, now)
		tx.PExpire(ctx, key, c.TTL)
		stored = tx.HGet(ctx, key, retryMark)
		return nil
	})
	if err = txError(cmds, err); err != nil {
		return 0, c.classify(ctx, err)
	}
	return stored.Int64()
}
