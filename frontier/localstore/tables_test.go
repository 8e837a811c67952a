package localstore

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bloomfrontier/crawler/frontier"
)

// checkTables returns the inconsistencies between the tables of a store that
// has no leases.
func checkTables(s *Store) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	hosts, due := readHosts(s, fault)
	waiting := make(map[string]*host)
	err := s.scanQueue(s.db, "", func(at queuePos, item frontier.Item) bool {
		h := waiting[item.Host]
		if h == nil {
			h = &host{key: item.Host}
			waiting[item.Host] = h
		}
		h.enqueued(at)
		if row := hosts[item.Host]; row == nil || row.head[at.priority] > at.seq {
			fault("%s is in its queue before the head that its host's row names", item.URL)
		}
		return true
	})
	if err != nil {
		fault("scan of the queues: %v", err)
	}
	checkCounters(s, hosts, fault)
	for _, key := range slices.Sorted(maps.Keys(hosts)) {
		h := hosts[key]
		rows := waiting[key]
		if rows == nil {
			rows = &host{}
		}
		if h.waiting != rows.waiting {
			fault("row of host %s says %v items wait, its queue has %v", key, h.waiting, rows.waiting)
		}
		if at, ok := due[key]; ok != (h.waits() > 0) || at != h.indexed {
			fault("host %s with %d items waiting has due time %d in the index (in it: %t), its row says %d",
				key, h.waits(), at, ok, h.indexed)
		}
		if at, ok := due[key]; ok && at < h.due {
			fault("host %s is indexed before it is due", key)
		}
	}
	return faults
}

// checkCounters compares delayed items and busy hosts with their counters.
func checkCounters(s *Store, hosts map[string]*host, fault func(string, ...any)) {
	delayed, of := uint64(0), make(map[string]uint64)
	err := s.scanDelayed(s.db, func(_ int64, item frontier.Item) bool {
		delayed++
		of[item.Host]++
		if hosts[item.Host] == nil {
			fault("%s is delayed, but its host has no row", item.URL)
		}
		return true
	})
	if err != nil {
		fault("scan of the delayed items: %v", err)
	}
	busy := uint64(0)
	for key, h := range hosts {
		if h.delayed != of[key] {
			fault("host %s has %d delayed items, its row says %d", key, of[key], h.delayed)
		}
		if h.busy() {
			busy++
		}
	}
	if stats := s.meta.Stats; stats.Delayed != delayed || stats.Hosts != busy {
		fault("%d delayed items, %d hosts with work; the counters say %d and %d", delayed, busy, stats.Delayed, stats.Hosts)
	}
}

// readHosts returns the host rows, and the due times of the hosts in tableDue.
func readHosts(s *Store, fault func(string, ...any)) (hosts map[string]*host, due map[string]int64) {
	hosts, due = make(map[string]*host), make(map[string]int64)
	if err := s.scanHosts(func(h *host) { hosts[h.key] = h }); err != nil {
		fault("scan of the hosts: %v", err)
	}
	err := s.scan(s.db, tableDue, func(key, _ []byte) error {
		at, name := splitDueKey(key)
		if _, twice := due[string(name)]; twice {
			fault("host %s is indexed twice", name)
		}
		due[string(name)] = at
		return nil
	})
	if err != nil {
		fault("scan of the index of due hosts: %v", err)
	}
	return hosts, due
}

func (s *Store) scanHosts(visit func(*host)) error {
	return s.scan(s.db, tableHost, func(key, value []byte) error {
		h := &host{key: string(key[1:])}
		err := decodeHost(value, h)
		visit(h)
		return err
	})
}
