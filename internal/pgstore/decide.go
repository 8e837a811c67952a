package pgstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// races is the maximum number of turns of one Decide. Each turn is a look-up and an insert.
// A second turn is needed if other callers insert the same keys first. This happens when
// workers find the same links. A third turn is needed only if the keys are also finished and
// deleted by Sweep in between.
const races = 8

// Decide implements exact.Set. A known key costs a look-up and no write. If the answer of a
// call is lost, its new keys stay pending, which means that they are perhaps not queued,
// until a forwarder finds them. A repeated call answers that these keys are known.
func (s *Store) Decide(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("pgstore: decide: %w", context.Cause(ctx))
	}
	answers := make(map[bloomstore.Fingerprint]exact.Answer, len(keys))
	open := distinct(keys)
	for race := 0; len(open) > 0; race++ {
		if race == races {
			return nil, fmt.Errorf("pgstore: decide: %w: other writers changed %d keys in every attempt", frontier.ErrUnavailable, len(open))
		}
		missing, over, err := s.lookUp(ctx, open, answers)
		if err == nil {
			err = s.findOwnPending(ctx, open, answers)
		}
		if err != nil {
			return nil, err
		}
		won, err := s.insert(ctx, missing, over)
		if err != nil {
			return nil, err
		}
		for print, round := range won {
			answers[print] = exact.Answer{New: true, Round: round, First: round == 0}
		}
		// Other callers inserted the keys that are not in won.
		open = slices.DeleteFunc(distinct(append(missing, over...)), func(key exact.Key) bool {
			_, own := won[key.Fingerprint]
			return own
		})
	}
	all := make([]exact.Answer, len(keys))
	for i, key := range keys {
		all[i] = answers[key.Fingerprint]
		answers[key.Fingerprint] = exact.Answer{Round: all[i].Round} // equal keys after the first are known
	}
	return all, nil
}

// distinct returns keys sorted by fingerprint, and of equal keys only the first. Rows are
// locked in this order.
func distinct(keys []exact.Key) []exact.Key {
	sorted := slices.Clone(keys)
	slices.SortStableFunc(sorted, func(a, b exact.Key) int { return bytes.Compare(a.Fingerprint[:], b.Fingerprint[:]) })
	return slices.CompactFunc(sorted, func(a, b exact.Key) bool { return a.Fingerprint == b.Fingerprint })
}

// foundKey is a key that was found by a look-up.
type foundKey struct {
	round uint32
	over  bool // the window of the key is over
}

// lookUp looks up keys, and stores the answers for known keys. It returns the missing keys, and
// the keys whose window is over.
func (s *Store) lookUp(ctx context.Context, keys []exact.Key, answers map[bloomstore.Fingerprint]exact.Answer) (missing, over []exact.Key, err error) {
	prints := make(uuids, len(keys))
	for i, key := range keys {
		prints[i] = uuid(key.Fingerprint)
	}
	found := make(map[bloomstore.Fingerprint]foundKey, len(keys))
	err = s.try(ctx, "decide", func(ctx context.Context) error {
		clear(found)
		return s.run(ctx, s.sql("look_up"), []any{prints, s.now()}, func(rows pgx.Rows) error {
			var print pgtype.UUID
			var k foundKey
			_, err := pgx.ForEachRow(rows, []any{&print, &k.round, &k.over}, func() error {
				found[print.Bytes] = k
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, nil, err
	}
	for _, key := range keys {
		switch k, ok := found[key.Fingerprint]; {
		case !ok:
			missing = append(missing, key)
		case k.over:
			over = append(over, key)
		default:
			answers[key.Fingerprint] = exact.Answer{Round: k.round}
		}
	}
	return missing, over, nil
}

// findOwnPending makes the answers for known keys New, if they are pending and have the lines of the keys.
func (s *Store) findOwnPending(ctx context.Context, keys []exact.Key, answers map[bloomstore.Fingerprint]exact.Answer) error {
	var prints uuids
	var lines [][]byte
	for _, key := range keys {
		if _, known := answers[key.Fingerprint]; known && key.Line != "" {
			prints, lines = append(prints, uuid(key.Fingerprint)), append(lines, []byte(key.Line))
		}
	}
	if len(prints) == 0 {
		return nil
	}
	type own struct {
		print bloomstore.Fingerprint
		exact.Answer
	}
	found, err := query(ctx, s, "decide", s.sql("own_pending"), func(row pgx.CollectableRow) (c own, err error) {
		c.New = true
		err = row.Scan((*[16]byte)(&c.print), &c.Round, &c.First)
		return c, err
	}, prints, lines)
	for _, c := range found {
		answers[c.print] = c.Answer
	}
	return err
}

// insert inserts the missing keys and begins the next round of the keys whose window is
// over, in one transaction. It returns the keys that this caller now owns, and their rounds.
// It does not return keys that other callers changed first.
func (s *Store) insert(ctx context.Context, missing, over []exact.Key) (won map[bloomstore.Fingerprint]uint32, err error) {
	if len(missing)+len(over) == 0 {
		return nil, nil
	}
	err = s.try(ctx, "decide", func(ctx context.Context) error {
		won = make(map[bloomstore.Fingerprint]uint32, len(missing)+len(over))
		own := func(print bloomstore.Fingerprint, round uint32) { won[print] = round }
		var batch pgx.Batch
		if len(missing) > 0 {
			s.queueInsert(&batch, newColumns(missing), own)
		}
		if len(over) > 0 {
			c := newColumns(over)
			batch.Queue(s.sql("lock_keys"), c.prints)
			batch.Queue(s.sql("renew"), c.prints, c.classes, s.now()).Query(eachRound(own))
		}
		c := newColumns(append(missing, over...))
		batch.Queue(s.sql("insert_waiting"), c.prints, c.depths, c.hops, c.priorities, c.urls, c.lines)
		return s.send(ctx, &batch)
	})
	return won, err
}

// queueInsert adds to batch the statements that insert keys. When their results are read, the
// function own is called for each key that this caller now owns.
func (s *Store) queueInsert(batch *pgx.Batch, c columns, own func(bloomstore.Fingerprint, uint32)) {
	floor := s.floor.Load()
	batch.Queue(s.sql("insert_missing"), c.prints, c.classes, floor, s.now()).Query(eachRound(own))
	batch.Queue(s.sql("raise_floor"), c.prints, s.crawl, floor).Query(eachRound(func(print bloomstore.Fingerprint, round uint32) {
		own(print, round)
		s.learnFloor(round)
	}))
}

// learnFloor raises s.floor to a round, unless s.floor is already that high.
func (s *Store) learnFloor(round uint32) {
	for old := s.floor.Load(); old < round && !s.floor.CompareAndSwap(old, round); {
		old = s.floor.Load()
	}
}

// eachRound returns a function that reads rows of a fingerprint and a round, and calls visit
// for each row.
func eachRound(visit func(bloomstore.Fingerprint, uint32)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var print pgtype.UUID
		var round uint32
		_, err := pgx.ForEachRow(rows, []any{&print, &round}, func() error {
			visit(print.Bytes, round)
			return nil
		})
		return err
	}
}

// columns has an array for each column of keys.
type columns struct {
	prints           uuids
	classes, urls    []string
	depths           []int32
	hops, priorities []int16
	lines            [][]byte // nil for none
}

func newColumns(keys []exact.Key) (c columns) {
	for _, key := range keys {
		c.prints = append(c.prints, uuid(key.Fingerprint))
		c.classes = append(c.classes, digit(key.Class))
		c.depths = append(c.depths, int32(key.Depth))
		c.hops = append(c.hops, int16(key.Hops))
		c.priorities = append(c.priorities, int16(key.Priority))
		c.urls = append(c.urls, key.URL)
		var line []byte
		if key.Line != "" {
			line = []byte(key.Line)
		}
		c.lines = append(c.lines, line)
	}
	return c
}
