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

// races is how often a Decide may lose keys to other callers between its look-up and its
// insert. Once is common among workers that find the same links. It can happen again only
// if the keys are finished and swept in between.
const races = 8

// Decide implements exact.Set. A known key costs a look-up and no write. If an answer
// is lost, the keys stay pending until a relay finds them, and a repeated call answers
// that they are known.
func (s *Store) Decide(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("pgstore: decide: %w", context.Cause(ctx))
	}
	answers := make([]exact.Answer, len(keys))
	open, repeats := distinct(keys)
	for race := 0; len(open) > 0; race++ {
		if race == races {
			return nil, fmt.Errorf("pgstore: decide: %w: other writers changed %d keys in every attempt", frontier.ErrUnavailable, len(open))
		}
		missing, over, err := s.lookUp(ctx, keys, open, answers)
		if err != nil {
			return nil, err
		}
		won, err := s.insert(ctx, keys, missing, over)
		if err != nil {
			return nil, err
		}
		open = open[:0]
		for _, i := range append(missing, over...) {
			if round, own := won[keys[i].Fingerprint]; own {
				answers[i] = exact.Answer{New: true, Round: round, First: round == 0}
			} else {
				open = append(open, i) // another caller inserted it first
			}
		}
		sortByFingerprint(keys, open)
	}
	for i, first := range repeats {
		answers[i] = exact.Answer{Round: answers[first].Round}
	}
	return answers, nil
}

// distinct returns the indices of the first of equal keys, sorted by fingerprint, and
// maps each of the others to the first.
func distinct(keys []exact.Key) (first []int, repeats map[int]int) {
	sorted := make([]int, len(keys))
	for i := range sorted {
		sorted[i] = i
	}
	sortByFingerprint(keys, sorted)
	first = sorted[:0]
	for _, i := range sorted {
		if n := len(first); n == 0 || keys[first[n-1]].Fingerprint != keys[i].Fingerprint {
			first = append(first, i)
			continue
		}
		if repeats == nil {
			repeats = make(map[int]int)
		}
		repeats[i] = first[len(first)-1]
	}
	return first, repeats
}

// sortByFingerprint sorts at, which has indices of keys, into the order in which rows are
// locked. It is stable.
func sortByFingerprint(keys []exact.Key, at []int) {
	slices.SortStableFunc(at, func(a, b int) int {
		return bytes.Compare(keys[a].Fingerprint[:], keys[b].Fingerprint[:])
	})
}

// known is the result of the look-up of one key.
type known struct {
	round uint32
	over  bool // its window is over
}

// lookUp looks up the keys at the indices open, and stores the answers for known keys. It
// returns the indices of the missing keys, and of those whose window is over.
func (s *Store) lookUp(ctx context.Context, keys []exact.Key, open []int, answers []exact.Answer) (missing, over []int, err error) {
	prints := make(uuids, len(open))
	for j, i := range open {
		prints[j] = uuid(keys[i].Fingerprint)
	}
	found := make(map[bloomstore.Fingerprint]known, len(open))
	err = s.try(ctx, "decide", func(ctx context.Context) error {
		clear(found)
		rows, err := s.pool.Query(ctx, s.sql("look_up"), prints, s.now())
		if err != nil {
			return err
		}
		var print pgtype.UUID
		var k known
		_, err = pgx.ForEachRow(rows, []any{&print, &k.round, &k.over}, func() error {
			found[print.Bytes] = k
			return nil
		})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, i := range open {
		switch k, ok := found[keys[i].Fingerprint]; {
		case !ok:
			missing = append(missing, i)
		case k.over:
			over = append(over, i)
		default:
			answers[i] = exact.Answer{Round: k.round}
		}
	}
	return missing, over, nil
}

// insert inserts the missing keys and begins the next round of those whose window is
// over, in one transaction. It returns the keys that this caller now owns, with their
// rounds.
func (s *Store) insert(ctx context.Context, keys []exact.Key, missing, over []int) (won map[bloomstore.Fingerprint]uint32, err error) {
	if len(missing)+len(over) == 0 {
		return nil, nil
	}
	err = s.try(ctx, "decide", func(ctx context.Context) error {
		won = make(map[bloomstore.Fingerprint]uint32, len(missing)+len(over))
		own := func(print bloomstore.Fingerprint, round uint32) { won[print] = round }
		var batch pgx.Batch // runs as one transaction, with a snapshot for each statement
		if len(missing) > 0 {
			s.queueInsert(&batch, newColumns(keys, missing), own)
		}
		if len(over) > 0 {
			c := newColumns(keys, over)
			batch.Queue(s.sql("lock_keys"), c.prints)
			batch.Queue(s.sql("renew"), c.prints, c.classes, s.now()).Query(eachRound(own))
		}
		c := newColumns(keys, append(missing, over...))
		batch.Queue(s.sql("insert_waiting"), c.prints, c.depths, c.hops, c.priorities, c.urls)
		return s.pool.SendBatch(ctx, &batch).Close()
	})
	return won, err
}

// queueInsert adds the statements that insert keys to batch. They call own for each key that
// this caller now owns.
func (s *Store) queueInsert(batch *pgx.Batch, c columns, own func(bloomstore.Fingerprint, uint32)) {
	floor := s.floor.Load()
	batch.Queue(s.sql("insert_missing"), c.prints, c.classes, floor, s.now()).Query(eachRound(own))
	batch.Queue(s.sql("raise_floor"), c.prints, s.crawl, floor).Query(eachRound(func(print bloomstore.Fingerprint, round uint32) {
		own(print, round)
		s.learnFloor(round)
	}))
}

// learnFloor records the highest round in which unknown keys began.
func (s *Store) learnFloor(round uint32) {
	for old := s.floor.Load(); old < round && !s.floor.CompareAndSwap(old, round); {
		old = s.floor.Load()
	}
}

// eachRound returns a function that calls do for each row of a fingerprint and a round.
func eachRound(do func(bloomstore.Fingerprint, uint32)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var print pgtype.UUID
		var round uint32
		_, err := pgx.ForEachRow(rows, []any{&print, &round}, func() error {
			do(print.Bytes, round)
			return nil
		})
		return err
	}
}

// columns are keys as arrays, one for each column.
type columns struct {
	prints           uuids
	classes, urls    []string
	depths           []int32
	hops, priorities []int16
}

func newColumns(keys []exact.Key, at []int) (c columns) {
	for _, i := range at {
		key := &keys[i]
		c.prints = append(c.prints, uuid(key.Fingerprint))
		c.classes = append(c.classes, digit(key.Class))
		c.depths = append(c.depths, int32(key.Depth))
		c.hops = append(c.hops, int16(key.Hops))
		c.priorities = append(c.priorities, int16(key.Priority))
		c.urls = append(c.urls, key.URL)
	}
	return c
}
