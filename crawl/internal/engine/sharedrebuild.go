package engine

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// rebuild rebuilds the filter from the records of all workers, and also the counters if
// they were lost. It collects more state from these records in the argument state. The
// caller has to queue the waiting exact URLs again afterwards. In this file, an item waits if
// it has no outcome yet. An exact item is one that has a key in the exact set. For all other
// items, the bulk items, the filter decides whether they are new.
func (h *Server) rebuild(ctx context.Context, c *Config, state *rebuildState) error {
	if c.Stored[exactSetting] != "" {
		if h.DB == nil {
			return errElsewhere(h.String(), "exact keys")
		}
		keys, err := h.DB.inspect(ctx, h.Name)
		if err != nil {
			return err
		}
		defer keys.Close()
		state.keys = keys
		if state.hasher, err = redisstore.StoredHasher(ctx, h.config()); err != nil {
			return h.explain(err)
		}
		if err := state.seedsThatWait(ctx); err != nil {
			return err
		}
	}
	records, err := h.allRecords(ctx, c, state.keys)
	if err != nil {
		return err
	}
	made, err := redisstore.Rebuild(ctx, h.config(), state.eachEnd(ctx, records))
	if err != nil {
		return h.explain(err)
	}
	if made.Partitions > 0 {
		c.Logger.Warn("counters were lost too, and are counted again from queues and records", slog.Int("partitions", made.Partitions))
	}
	return nil
}

// allRecords returns the records of all workers, except those of exact items that
// wait, because these items will get another record. If the records are rows, a waiting exact
// item has no record: Postgres stores the outcome of an exact item and its record in one
// transaction.
func (h *Server) allRecords(ctx context.Context, c *Config, keys *pgstore.Store) (RecordSource, error) {
	if c.Rows {
		return rows{ctx: ctx, set: keys}, nil
	}
	dirs, err := FindJournals([]string{h.Home()})
	if err == nil {
		err = oneCrawl(dirs)
	}
	if err != nil {
		return nil, &LocationError{Crawl: h.String(), Problem: "the records of all workers are wanted", Err: err}
	}
	if keys == nil {
		return merged{ctx: ctx, dirs: dirs}, nil
	}
	return merged{ctx: ctx, dirs: dirs, pending: waitingRefs(ctx, keys, c.Exact)}, nil
}

// eachWaiting yields the exact keys of waiting items.
func eachWaiting(ctx context.Context, keys *pgstore.Store) iter.Seq2[exact.Entry, error] {
	return func(yield func(exact.Entry, error) bool) {
		var after bloomstore.Fingerprint
		for {
			entries, err := keys.Waiting(ctx, after, 1000)
			if err != nil {
				yield(exact.Entry{}, err)
				return
			}
			if len(entries) == 0 {
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
				after = e.Fingerprint
			}
		}
	}
}

// waitingRefs yields the keys of the records that waiting exact items will get. The rebuild
// leaves out records with these keys. An item whose class does not depend only on its URL may have been a bulk item before, and
// wait in a later round than that of its key. rebuildState.parseEnd decides about the records of its URL.
func waitingRefs(ctx context.Context, keys *pgstore.Store, rules *exact.Rules) iter.Seq2[record.Key, error] {
	return func(yield func(record.Key, error) bool) {
		for e, err := range eachWaiting(ctx, keys) {
			if err == nil && !rules.Pure(e.Class) {
				continue
			}
			if !yield(record.Key{Item: e.Fingerprint, Round: e.Round}, err) || err != nil {
				return
			}
		}
	}
}

// rebuildState has the state that a rebuild collects from records and exact keys,
// besides the keys of the filter.
type rebuildState struct {
	c      *Config
	keys   *pgstore.Store // nil means that exact keys are not in Postgres
	hasher bloomstore.Hasher
	scope  map[string]bool // scope keys of seeds (see frontier.Scope)
	checks []string        // URLs that were checked
	hosts  map[string]bool // used only if the number of hosts of a domain is limited
}

func newRebuildState(c *Config) *rebuildState {
	return &rebuildState{c: c, scope: make(map[string]bool), hosts: make(map[string]bool)}
}

// seedsThatWait adds the hosts of the waiting exact keys, and the scope keys of the seeds
// among them.
func (m *rebuildState) seedsThatWait(ctx context.Context) error {
	for e, err := range eachWaiting(ctx, m.keys) {
		if err != nil {
			return err
		}
		if err := m.addHost(e.URL, e.Priority == frontier.PrioritySeed); err != nil {
			return err
		}
	}
	return nil
}

// addHost adds the host of a URL that was queued. If the URL is a seed, addHost also adds the
// scope keys of the URL.
func (m *rebuildState) addHost(canonical string, isSeed bool) error {
	bounded := m.c.MaxHosts > 0 && m.c.Scope != canon.ScopeHost
	if !bounded && !isSeed {
		return nil
	}
	url, err := m.c.Canon.Parse(canonical)
	if err != nil {
		return fmt.Errorf("%q: %w", canonical, err)
	}
	if bounded {
		m.hosts[url.Host()] = true
	}
	if isSeed {
		if m.c.Policy().SeedsUnlimited {
			m.scope[frontier.SeedHost(m.c.Canon.HostKey(url))] = true
		}
		for _, key := range canon.Keys(m.c.Scope, url) {
			m.scope[key] = true
		}
	}
	return nil
}

// eachEnd yields how each item in records ended, and collects state from the records.
func (m *rebuildState) eachEnd(ctx context.Context, records RecordSource) iter.Seq2[redisstore.Ended, error] {
	return func(yield func(redisstore.Ended, error) bool) {
		for line, err := range records.Lines() {
			var ends []redisstore.Ended
			if err == nil {
				ends, err = m.parseEnd(ctx, line)
			}
			if err != nil {
				yield(redisstore.Ended{}, err)
				return
			}
			for _, end := range ends {
				if !yield(end, nil) {
					return
				}
			}
		}
	}
}

// parseEnd parses a record. If the item failed and was queued again, the result has a
// second element for the round in which the item waits now. The result is empty if the
// item is exact and still waits, because it will get another record.
func (m *rebuildState) parseEnd(ctx context.Context, line []byte) ([]redisstore.Ended, error) {
	var r struct {
		URL, Host  string
		Class      string
		Outcome    frontier.Outcome
		Status     int
		Depth      uint16
		Round      uint32
		Submission string
		ReferrerID string    `json:"referrer_id"`
		FetchedAt  time.Time `json:"fetched_at"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, fmt.Errorf("record %.100q: %w", line, err)
	}
	end := redisstore.Ended{Outcome: r.Outcome, Status: r.Status, At: r.FetchedAt,
		Item: frontier.Item{URL: r.URL, Host: r.Host, Depth: r.Depth, Round: r.Round, Submission: r.Submission, Priority: frontier.PriorityPage}}
	_, _ = hex.Decode(end.Item.Referrer[:], []byte(r.ReferrerID[:min(len(r.ReferrerID), 2*len(end.Item.Referrer))]))
	if r.Outcome.IsCheck() {
		url, err := m.c.Canon.Parse(r.URL)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", r.URL, err)
		}
		m.checks = append(m.checks, r.URL)
		end.Item.URL, end.Item.Host = frontier.CheckURL(r.URL), frontier.CheckHost(canon.Domain(url.Host()))
		return []redisstore.Ended{end}, nil
	}
	failed := r.Outcome.State() == frontier.Failed
	atSeed := r.Depth == 0 && (failed || m.c.Scope != canon.ScopeAny || m.c.Policy().SeedsUnlimited)
	class, known := m.c.Exact.ClassOf(r.Class)
	mixed := m.keys != nil && known && class != frontier.Bulk && !m.c.Exact.Pure(class) // waitingRefs does not yield the key of such a record
	key, err := m.classify(ctx, &end.Item, failed || atSeed || mixed)
	if err != nil {
		return nil, err
	}
	waits := key.State == exact.Pending || key.State == exact.Queued
	if mixed && waits && key.Round <= r.Round {
		return nil, nil
	}
	if r.Class != "" {
		end.Item.Class = class // the set may have its URL with another class
	}
	if atSeed = r.Depth == 0 && end.Item.Class != frontier.Sitemap; atSeed {
		end.Item.Priority = frontier.PrioritySeed
	}
	if err := m.addHost(r.URL, atSeed); err != nil {
		return nil, err
	}
	ends := []redisstore.Ended{end}
	if failed && waits && key.Round > r.Round {
		later := redisstore.Ended{Item: end.Item}
		later.Item.Round = key.Round
		ends = append(ends, later)
	}
	return ends, nil
}

// classify sets the class of an item, and returns its state in the exact set if the set is
// in Postgres. It does nothing if the argument wanted is false.
func (m *rebuildState) classify(ctx context.Context, it *frontier.Item, wanted bool) (status exact.Status, err error) {
	if !wanted {
		return status, nil
	}
	if m.keys == nil {
		found := exact.ByLink
		if it.Depth == 0 {
			found = exact.BySeed
		}
		it.Class = m.c.Exact.Class(&frontier.Offer{URL: it.URL, Depth: it.Depth}, found)
		return status, nil
	}
	if status, err = m.keys.Lookup(ctx, m.hasher.Fingerprint(it.URL)); err == nil && status.State != exact.Unknown {
		it.Class = status.Class
	}
	return status, err
}

// restore stores the scope keys of seeds again, and counts the hosts of each domain.
func (m *rebuildState) restore(ctx context.Context, store *redisstore.Store) error {
	if len(m.scope) > 0 {
		if err := store.Admit(ctx, slices.Collect(maps.Keys(m.scope))); err != nil {
			return err
		}
	}
	keys := make([]frontier.QuotaKey, 0, len(m.hosts))
	for host := range m.hosts {
		keys = append(keys, frontier.QuotaKey{Group: canon.Domain(host), Key: host})
	}
	for _, url := range m.checks {
		keys = append(keys, frontier.QuotaKey{Group: frontier.ChecksGroup, Key: url})
	}
	_, err := store.Reserve(ctx, keys, math.MaxUint64)
	return err
}
