package exacttest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

var stateCases = []testCase{
	{"PendingQueuedDone", exact.Windows{}, func(d *driver) {
		all := keys(0, 4)
		d.wantState(exact.Unknown, 0, all...)
		d.fresh(all...)
		d.wantState(exact.Pending, 0, all...)
		d.markQueued(0, all[1:]...)
		d.wantState(exact.Queued, 0, all[1:]...)
		d.storeEnds(finished(all[2], 0, frontier.ClientError, 404), finished(all[3], 0, frontier.Network, 0))
		d.wantState(exact.Pending, 0, all[0])
		d.wantState(exact.Queued, 0, all[1])
		d.wantState(exact.Done, 0, all[2])
		d.wantState(exact.Failed, 0, all[3])
		s := d.status(all[2])
		d.Require(s.Outcome == frontier.ClientError && s.HTTP == 404 && s.Forever,
			"the status of a done key without a window is %+v, want its outcome, HTTP status 404 and Forever", s)
		d.wantStats(1, 1, 1, 1)
		d.wantAnswers(exact.Answer{}, all...)
		d.wantEntries("Waiting", d.waiting(1), 0, all[:2]...)
	}},
	{"Withdraw", exact.Windows{}, func(d *driver) {
		d.fresh(keys(0, 4)...)
		d.markQueued(0, key(1))
		d.Must(d.Withdraw(d.Ctx, append(refs(0, key(0), key(1), key(9), key(0)), refs(1, key(2))...)), "Withdraw")
		d.wantState(exact.Unknown, 0, key(0))
		d.wantState(exact.Queued, 0, key(1))
		d.wantState(exact.Pending, 0, keys(2, 4)...)
		d.fresh(key(0))
	}},
	{"FirstToFinishDecides", exact.Windows{}, func(d *driver) {
		d.queue(0, keys(0, 2)...)
		d.storeEnds(finished(key(0), 0, frontier.OK, 200), finished(key(1), 0, frontier.ServerError, 503))
		d.storeEnds(finished(key(0), 0, frontier.Network, 0), finished(key(1), 0, frontier.OK, 200))
		for i, want := range []exact.Status{
			{State: exact.Done, Class: frontier.Exact, Outcome: frontier.OK, HTTP: 200, Forever: true},
			{State: exact.Failed, Class: frontier.Exact, Outcome: frontier.ServerError, HTTP: 503, Forever: true},
		} {
			got := d.status(key(i))
			d.Require(got == want, "status of key %d after a second Finish: %+v, want %+v", i, got, want)
		}
	}},
	{"EqualKeysInOneFinish", exact.Windows{}, func(d *driver) {
		d.queue(0, keys(0, 2)...)
		d.storeEnds(
			finished(key(0), 0, frontier.OK, 200), finished(key(0), 0, frontier.Network, 0),
			finished(key(1), 0, frontier.Network, 0), finished(key(1), 1, frontier.OK, 200),
		)
		d.wantState(exact.Done, 0, key(0))
		d.wantState(exact.Done, 1, key(1))
	}},
	// This case checks that a set keeps only the first record for a fingerprint and round,
	// whether it has the key or not.
	{"RecordsOnce", exact.Windows{}, func(d *driver) {
		d.queue(0, keys(0, 2)...)
		end := []exact.Finished{finished(key(0), 0, frontier.OK, 200)}
		first, second, bulk := d.rowOf(key(0), 0, "first"), d.rowOf(key(0), 0, "second"), d.rowOf(key(7), 0, "bulk")
		d.Must(d.Finish(d.Ctx, end, []exact.Row{first, bulk}), "Finish")
		d.Must(d.Finish(d.Ctx, end, []exact.Row{first, bulk}), "Finish again")
		d.Clock.Advance(time.Minute)
		d.Must(d.Finish(d.Ctx, end, []exact.Row{second, d.rowOf(key(7), 0, "another")}), "Finish late")
		d.wantRecords(first, bulk)
		other := d.rowOf(key(0), 1, "next round")
		d.Must(d.Finish(d.Ctx, []exact.Finished{finished(key(0), 1, frontier.OK, 200)}, []exact.Row{other, d.rowOf(key(0), 1, "twin")}), "Finish")
		d.wantRecords(first, bulk, other)
	}},
	{"RecordsWithoutKeys", exact.Windows{}, func(d *driver) {
		var rows []exact.Row
		for _, key := range append(keys(3, 600), extremes()...) {
			rows = append(rows, d.rowOf(key, uint32(key.Depth%3), "bulk"))
		}
		rows[0].Outcome, rows[0].Status = frontier.Network, 0
		d.Must(d.Finish(d.Ctx, nil, rows), "Finish")
		d.wantRecords(rows...)
		d.wantStats(0, 0, 0, 0)
	}},
}

// rowOf returns a row with a record of a key. The record contains the text mark.
func (d *driver) rowOf(key exact.Key, round uint32, mark string) exact.Row {
	return exact.Row{
		Ref: refs(round, key)[0], URL: key.URL, Fetched: d.Clock.Now(), Outcome: frontier.OK, Status: 200,
		Record: fmt.Appendf(nil, `{"url":%q,"mark":%q}`, key.URL, mark),
	}
}

// wantRecords checks the records of the set. They must be in the order of fingerprints and
// rounds.
func (d *driver) wantRecords(want ...exact.Row) {
	got, err := d.Records(d.Ctx)
	d.Must(err, "Records")
	slices.SortFunc(want, compareRows)
	same := func(a, b exact.Row) bool {
		return a.Ref == b.Ref && a.URL == b.URL && a.Fetched.Equal(b.Fetched) && a.Outcome == b.Outcome &&
			a.Status == b.Status && sameJSON(a.Record, b.Record)
	}
	d.Require(slices.EqualFunc(got, want, same), "the records are %+v, want %+v", got, want)
}

// sameJSON compares the values, because databases write the same JSON in other ways.
func sameJSON(a, b []byte) bool {
	var values [2]any
	for i, text := range [2][]byte{a, b} {
		if json.Unmarshal(text, &values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
