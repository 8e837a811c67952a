package redisstore

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed beat.lua
	beatLua string
	//go:embed roster.lua
	rosterLua string
	// A repeat does no harm, so these are sent as any other command.
	beatScript   = redis.NewScript(beatLua)
	rosterScript = redis.NewScript(rosterLua)
)

const (
	// beatEvery is how often a worker says that it lives.
	beatEvery = time.Second
	// beatLimit is how long a worker may be silent before it counts as dead: the
	// others then look after its partitions. Its leases last as long as they do.
	beatLimit = 10 * time.Second
	// beatLeave bounds the last word of a worker that is closed.
	beatLeave = 2 * time.Second
)

// Worker is a process that takes, or took, part in a crawl, as of its last
// heartbeat.
type Worker struct {
	Number  int           `json:"number"` // within the crawl
	Live    bool          `json:"live"`   // heard within the last seconds
	Silent  time.Duration `json:"silent"` // since it was heard; 0 for one that left in order
	Name    string        `json:"name"`   // Config.Worker
	Host    string        `json:"host"`   // the machine
	PID     int           `json:"pid"`
	Started time.Time     `json:"started"` // by its own clock
	// Partitions is how many it looks after, Leases how many hosts it holds.
	Partitions int    `json:"partitions"`
	Leases     int    `json:"leases"`
	Added      uint64 `json:"added"` // items that it was told are added, see Lost
}

// heart is the part of a Store by which the crawl knows of it.
type heart struct {
	self  Worker // but for what changes
	owned int    // partitions
	acked string // what was said last of acknowledged
}

// enrol makes this process known as a worker, under a number of its own.
//
// The number is drawn, not counted: a server that lost its last moments would
// give out one number twice, and two workers would count in one field.
func (s *Store) enrol(ctx context.Context) error {
	const numbers = 1 << 20
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	s.self = Worker{Name: s.cfg.Worker, Host: host, PID: os.Getpid(), Started: time.Now().UTC().Truncate(time.Second)}
	s.self.Name = cmp.Or(s.self.Name, fmt.Sprintf("%s-%d", host, s.self.PID))
	for s.number == 0 {
		number := 1 + rand.IntN(numbers)
		mine, err := s.client.HSetNX(ctx, s.cfg.workersKey(), strconv.Itoa(number), "{}").Result()
		if err != nil {
			return s.classify(ctx, err)
		}
		if mine {
			s.number = number
		}
	}
	s.added = fieldAdded + strconv.Itoa(s.number)
	if err := s.beat(ctx); err != nil {
		return err
	}
	s.spawn(s.beatOn)
	return nil
}

// beatOn says that the worker lives until ctx ends, and then that it leaves.
func (s *Store) beatOn(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := s.beat(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Logger.DebugContext(ctx, "no heartbeat", "err", err)
			}
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatLeave)
			defer cancel()
			if _, err := s.sendBeat(ctx, ""); err != nil { // it will be found dead
				s.cfg.Logger.DebugContext(ctx, "left without a word", "err", err)
			}
			return
		}
	}
}

// beat says what the worker does and learns which others live. One is in flight
// at a time.
func (s *Store) beat(ctx context.Context) error {
	said := s.self
	said.Partitions, said.Leases = s.owned, s.held.live(s.now())
	for i := range s.acknowledged {
		said.Added += s.acknowledged[i].Load()
	}
	text, err := json.Marshal(said)
	if err != nil {
		return fmt.Errorf("redisstore: heartbeat: %w", err)
	}
	live, err := s.sendBeat(ctx, string(text))
	if err != nil {
		return err
	}
	s.share(live)
	return nil
}

// sendBeat runs beat.lua; without a word the worker leaves.
func (s *Store) sendBeat(ctx context.Context, word string) (live []string, err error) {
	keys := []string{s.cfg.workersKey(), s.cfg.heardKey(), s.cfg.ackedKey()}
	acked := s.packAcknowledged()
	changed := acked
	if acked == s.acked && word != "" {
		changed = "" // the last word says it in any case, should the server have forgotten
	}
	live, err = beatScript.Run(ctx, s.client, keys, s.number, word, changed, beatLimit.Milliseconds()).StringSlice()
	if err != nil {
		return nil, s.classify(ctx, err)
	}
	s.acked = acked
	return live, nil
}

// share shares the partitions among the workers that live. With a clock that
// tests set, every Lease looks at all of them.
func (s *Store) share(live []string) {
	if s.cfg.Now != nil {
		s.owned = len(s.parts)
		return
	}
	numbers := make([]int, 0, len(live))
	for _, number := range live {
		if n, err := strconv.Atoi(number); err == nil {
			numbers = append(numbers, n)
		}
	}
	mine := ownership(len(s.parts), s.number, numbers)
	s.owned = 0
	for _, is := range mine {
		if is {
			s.owned++
		}
	}
	s.schedule.own(mine)
}

// ownership returns which of n partitions belong to a worker: those for which it
// draws the highest lot of all that live (rendezvous hashing), so that a worker
// who comes or goes changes the owner of no partition but its own.
func ownership(n, worker int, live []int) []bool {
	mine := make([]bool, n)
	for p := range mine {
		mine[p] = !slices.ContainsFunc(live, func(other int) bool {
			return other != worker && lot(other, p) > lot(worker, p)
		})
	}
	return mine
}

// lot returns what a worker draws for a partition: no two workers draw the same
// for one, for every step of the mixing can be undone (splitmix64).
func lot(worker, partition int) uint64 {
	x := (uint64(worker)<<32 | uint64(partition)) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Workers returns the workers that the crawl has and had, those that live first,
// then by when they started.
func (s *Store) Workers(ctx context.Context) ([]Worker, error) {
	keys := []string{s.cfg.workersKey(), s.cfg.heardKey()}
	reply, err := rosterScript.Run(ctx, s.client, keys).Slice()
	if err != nil {
		return nil, s.classify(ctx, err)
	}
	now, heard := integer(at(reply, 0)), make(map[string]int64)
	for number, at := range pairs(list(at(reply, 2))) {
		heard[number], _ = strconv.ParseInt(at, 10, 64)
	}
	var workers []Worker
	for number, word := range pairs(list(at(reply, 1))) {
		var w Worker
		if err := json.Unmarshal([]byte(word), &w); err != nil {
			return nil, fmt.Errorf("redisstore: worker %q says %q: %w", number, word, err)
		}
		w.Number, _ = strconv.Atoi(number)
		if last, ok := heard[number]; ok {
			w.Silent = max(time.Duration(now-last)*time.Millisecond, 0)
			w.Live = w.Silent <= beatLimit
		}
		workers = append(workers, w)
	}
	slices.SortFunc(workers, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(oneIf(b.Live), oneIf(a.Live)), a.Started.Compare(b.Started), cmp.Compare(a.Number, b.Number))
	})
	return workers, nil
}

// pairs iterates over a reply that is a list of names, each with a value.
func pairs(values []any) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for i := 0; i+1 < len(values); i += 2 {
			if !yield(text(values[i]), text(values[i+1])) {
				return
			}
		}
	}
}

// packAcknowledged returns what this worker was told is added, by partition.
func (s *Store) packAcknowledged() string {
	var b []byte
	for i := range s.acknowledged {
		b = binary.AppendUvarint(b, s.acknowledged[i].Load())
	}
	return string(b)
}

// unpackAcknowledged is the inverse of packAcknowledged.
func unpackAcknowledged(packed string) (counts []uint64, ok bool) {
	for b := []byte(packed); len(b) > 0; {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, false
		}
		counts, b = append(counts, n), b[size:]
	}
	return counts, true
}
