package pgstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/internal/exact"
)

// Queued implements exact.Set.
func (s *Store) Queued(ctx context.Context, keys []exact.Ref) error {
	prints, rounds := refColumns(keys)
	if len(prints) == 0 {
		return nil
	}
	return s.exec(ctx, "mark keys as queued", s.sql("queued"), prints, rounds)
}

// Withdraw implements exact.Set.
func (s *Store) Withdraw(ctx context.Context, keys []exact.Ref) error {
	prints, rounds := refColumns(keys)
	if len(prints) == 0 {
		return nil
	}
	return s.try(ctx, "withdraw keys", func(ctx context.Context) error {
		var batch pgx.Batch
		batch.Queue(s.sql("lock_keys"), prints)
		batch.Queue(s.sql("withdraw"), prints, rounds)
		return s.send(ctx, &batch)
	})
}

// refColumns returns keys as arrays, sorted and without repetitions.
func refColumns(keys []exact.Ref) (prints uuids, rounds []int64) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, compareRefs)
	for _, key := range slices.Compact(keys) {
		prints, rounds = append(prints, uuid(key.Fingerprint)), append(rounds, int64(key.Round))
	}
	return prints, rounds
}

func compareRefs(a, b exact.Ref) int {
	return cmp.Or(bytes.Compare(a.Fingerprint[:], b.Fingerprint[:]), cmp.Compare(a.Round, b.Round))
}

// Finish implements exact.Set. When it returns nil, the change survives a crash of the
// server.
func (s *Store) Finish(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
	if len(finished)+len(records) == 0 {
		return nil
	}
	keys, err := columnsOfFinished(finished)
	if err != nil {
		return err
	}
	rows := columnsOfRows(records)
	err = s.try(ctx, "finish keys", func(ctx context.Context) error {
		var batch pgx.Batch
		if len(finished) > 0 {
			batch.Queue(s.sql("lock_keys"), keys.prints)
			batch.Queue(s.sql("finish"), keys.prints, keys.rounds, keys.classes, keys.outcomes, keys.statuses, s.crawl, s.now())
			s.reach(&batch, finished)
		}
		if len(records) == 0 {
			return s.send(ctx, &batch)
		}
		insert := batch.Queue(s.sql("insert_records"), rows.prints, rows.rounds, rows.fetched, rows.statuses, rows.outcomes,
			rows.urls, rows.records, rows.sequences)
		for _, links := range columnsOfLinks(records) {
			batch.Queue(s.sql("insert_links"), links.prints, links.rounds, links.parts, links.lines)
		}
		if !s.cfg.Capture {
			return s.send(ctx, &batch)
		}
		return s.capture(ctx, &batch, insert, records)
	})
	if err == nil && len(records) > 0 {
		s.notify()
	}
	return err
}

// finishedColumns has an array for each column of finished keys.
type finishedColumns struct {
	prints            uuids
	rounds            []int64
	classes, statuses []int16
	outcomes          []string
}

// columnsOfFinished returns finished keys as columns. If a key was finished several times,
// only the highest round counts. If this round occurs several times, the first one counts.
func columnsOfFinished(finished []exact.Finished) (e finishedColumns, err error) {
	sorted := slices.Clone(finished)
	slices.SortStableFunc(sorted, func(a, b exact.Finished) int {
		return cmp.Or(bytes.Compare(a.Fingerprint[:], b.Fingerprint[:]), cmp.Compare(b.Round, a.Round))
	})
	for _, f := range slices.CompactFunc(sorted, func(a, b exact.Finished) bool { return a.Fingerprint == b.Fingerprint }) {
		letter := f.Outcome.Letter()
		if letter == "" {
			return e, fmt.Errorf("pgstore: finish key %x: %q is no outcome", f.Fingerprint, f.Outcome)
		}
		e.prints, e.rounds = append(e.prints, uuid(f.Fingerprint)), append(e.rounds, int64(f.Round))
		e.classes, e.statuses = append(e.classes, int16(f.Class)), append(e.statuses, int16(f.Status))
		e.outcomes = append(e.outcomes, letter)
	}
	return e, nil
}

// rowColumns has an array for each column of records.
type rowColumns struct {
	prints                  uuids
	rounds                  []int64
	sequences               []int32 // positions in the caller's order, from 1
	fetched                 []time.Time
	statuses                []int16
	outcomes, urls, records []string
}

// firstRows returns the indexes of records, sorted by fingerprint and round. If several records have the same
// fingerprint and round, only the first of them is in the result.
func firstRows(records []exact.Row) []int {
	sorted := make([]int, len(records))
	for i := range sorted {
		sorted[i] = i
	}
	slices.SortStableFunc(sorted, func(a, b int) int { return compareRefs(records[a].Ref, records[b].Ref) })
	return slices.CompactFunc(sorted, func(a, b int) bool { return records[a].Ref == records[b].Ref })
}

// columnsOfRows returns the records of firstRows as columns.
func columnsOfRows(records []exact.Row) (r rowColumns) {
	for _, i := range firstRows(records) {
		row := &records[i]
		r.sequences = append(r.sequences, int32(i+1))
		r.prints, r.rounds = append(r.prints, uuid(row.Fingerprint)), append(r.rounds, int64(row.Round))
		r.fetched, r.statuses = append(r.fetched, row.Fetched), append(r.statuses, int16(row.Status))
		r.outcomes, r.urls = append(r.outcomes, string(row.Outcome)), append(r.urls, row.URL)
		r.records = append(r.records, string(row.Record))
	}
	return r
}

// linkColumns has an array for each column of links.
type linkColumns struct {
	prints        uuids
	rounds, parts []int32
	lines         []string
}

// linkBytes is the size of lines after which columnsOfLinks begins other columns.
const linkBytes = 4 << 20

// columnsOfLinks returns the links of the records of firstRows, as columns for several statements, because the
// server has the parameters of a statement in memory.
func columnsOfLinks(records []exact.Row) (all []linkColumns) {
	size := linkBytes
	for _, i := range firstRows(records) {
		row := &records[i]
		for part, line := range row.Links {
			if size >= linkBytes {
				all, size = append(all, linkColumns{}), 0
			}
			l := &all[len(all)-1]
			l.prints, l.rounds = append(l.prints, uuid(row.Fingerprint)), append(l.rounds, int32(row.Round))
			l.parts, l.lines = append(l.parts, int32(part)), append(l.lines, string(line))
			size += len(line)
		}
	}
	return all
}
