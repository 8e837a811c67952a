package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Journal says how far a relay has delivered the events of one journal: of the record files in
// one worker's directory. The worker and the relay report it every second. When all events are
// delivered and no worker writes the journal, they remove it with ForgetJournal. So a journal
// that is silent was left with events that are not delivered, or perhaps not.
type Journal struct {
	ID     string `json:"-"`      // of the directory; it stays the same if the directory is moved
	Relay  string `json:"-"`      // name of the relay
	Worker string `json:"worker"` // name of the worker that wrote the journal last
	Host   string `json:"host"`   // name of its machine
	Dir    string `json:"dir"`    // absolute path of the directory on this machine

	Written   string `json:"written"`   // cursor after the last record that was written
	Delivered string `json:"delivered"` // cursor after the last event that was delivered
	Events    uint64 `json:"events"`    // events that are not delivered
	Bytes     uint64 `json:"bytes"`     // size of their records
	More      bool   `json:"more,omitempty"`

	Own     bool `json:"own,omitempty"`      // the worker delivered its own events (--events)
	Ended   bool `json:"ended,omitempty"`    // the process has ended in order, so the figures are final
	GivenUp bool `json:"given_up,omitempty"` // a person has accepted the loss of these events

	Silent   time.Duration `json:"-"` // time since the last report
	Reported int64         `json:"-"` // time of the last report, ms, by the clock of the server
}

// Left reports whether no process delivers the events of the journal.
func (j *Journal) Left() bool { return j.Ended || j.Silent > beatLimit }

// field returns the field of the journal in the hash of all journals. A name of a relay has
// no slash.
func (j *Journal) field() string { return j.ID + "/" + j.Relay }

// ReportJournal stores j. A later call with the same ID and Relay replaces it.
func (s *Store) ReportJournal(ctx context.Context, j Journal) error {
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("redisstore: journal: %w", err)
	}
	keys := []string{s.cfg.journalsKey()}
	return s.classify(ctx, journalScript.Run(ctx, s.client, keys, j.field(), string(text)).Err())
}

// ForgetJournal removes a journal, because its events are delivered.
func (s *Store) ForgetJournal(ctx context.Context, id, relay string) error {
	j := Journal{ID: id, Relay: relay}
	return s.classify(ctx, s.write(ctx, "HDEL", s.cfg.journalsKey(), j.field()).Err())
}

// Journals returns the journals that were reported and not forgotten, in the order of their
// directories.
func (s *Store) Journals(ctx context.Context) ([]Journal, error) {
	reply, err := journalsScript.Run(ctx, s.client, []string{s.cfg.journalsKey()}).Slice()
	if err != nil {
		return nil, s.classify(ctx, err)
	}
	now, _ := strconv.ParseInt(text(at(reply, 0)), 10, 64)
	var journals []Journal
	for field, value := range pairs(list(at(reply, 1))) {
		var j Journal
		j.ID, j.Relay, _ = strings.Cut(field, "/")
		reported, description, _ := strings.Cut(value, " ")
		j.Reported, _ = strconv.ParseInt(reported, 10, 64)
		if err := json.Unmarshal([]byte(description), &j); err != nil {
			return nil, fmt.Errorf("redisstore: journal %q says %.200q: %w", field, value, err)
		}
		j.Silent = max(time.Duration(now-j.Reported)*time.Millisecond, 0)
		journals = append(journals, j)
	}
	slices.SortFunc(journals, func(a, b Journal) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Dir, b.Dir), cmp.Compare(a.field(), b.field()))
	})
	return journals, nil
}
