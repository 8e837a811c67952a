package redisstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// beatEvery is the time between two heartbeats of a worker.
	beatEvery = time.Second
	// beatLimit is the time without a heartbeat after which a worker counts as dead. Then other
	// workers take charge of its partitions, but its leases last until they expire.
	beatLimit = 10 * time.Second
	// beatLeave is the timeout of a worker's last heartbeat.
	beatLeave = 2 * time.Second
)

// Worker describes a process that is or was a worker of a crawl, as of its last heartbeat.
type Worker struct {
	Number     int           `json:"number"` // within the crawl
	Live       bool          `json:"live"`   // its last heartbeat is recent
	Silent     time.Duration `json:"silent"` // time since its last heartbeat; 0 for a worker that called Close
	Name       string        `json:"name"`   // Config.Worker
	Host       string        `json:"host"`   // name of its machine
	PID        int           `json:"pid"`
	Machine    string        `json:"machine"`    // where PID has a meaning: see machine; empty means unknown
	Started    time.Time     `json:"started"`    // by its own clock
	Partitions int           `json:"partitions"` // number of partitions that it is in charge of
	Leases     int           `json:"leases"`     // number of hosts that it has leased
	Added      uint64        `json:"added"`      // number of items for which it got the answer Added, see Lost
}

// machine returns an id of the running system and of its namespace of process numbers, or "" if
// that is unknown. Names of hosts are not enough: two machines or containers can have the same.
func machine() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + namespace
}

// ended reports whether it is certain that the process of the worker has ended.
func (w *Worker) ended() bool {
	if w.Machine == "" || w.Machine != machine() {
		return false
	}
	process, err := os.FindProcess(w.PID)
	if err != nil {
		return errors.Is(err, os.ErrProcessDone)
	}
	defer func() { _ = process.Release() }()
	return errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// heartbeat is the part of a Store that describes this worker to other workers.
type heartbeat struct {
	self  Worker // without the values that change
	owned int    // number of its partitions
	acked string // packed form of acknowledged, as last stored on the server

	stopRequested chan struct{} // closed when another process has asked this worker to stop
}

// enrol registers this process as a worker, with a number of its own.
//
// The number is random. If a counter on the server assigned it, a server that lost its last writes
// could assign a number twice, and two workers would share one counter of added items.
func (s *Store) enrol(ctx context.Context) error {
	const numbers = 1 << 20
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	s.self = Worker{Name: s.cfg.Worker, Host: host, PID: os.Getpid(), Machine: machine(), Started: time.Now().UTC().Truncate(time.Second)}
	s.self.Name = cmp.Or(s.self.Name, fmt.Sprintf("%s-%d", host, s.self.PID))
	for s.number == 0 {
		number := 1 + rand.IntN(numbers)
		mine, err := s.write(ctx, "HSETNX", s.cfg.workersKey(), strconv.Itoa(number), "{}").Bool()
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

// beatOn sends heartbeats until ctx ends, and then a message that the worker leaves.
func (s *Store) beatOn(ctx context.Context) {
	for sleep(ctx, beatEvery) == nil {
		err := s.beat(ctx)
		if err == nil {
			err = errors.Join(s.readStop(ctx), s.nameLosses(ctx))
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.DebugContext(ctx, "no heartbeat", "err", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatLeave)
	defer cancel()
	if err := s.nameLosses(ctx); err != nil {
		s.cfg.Logger.DebugContext(ctx, "lost items not named", "err", err)
	}
	if err := s.client.HDel(ctx, s.cfg.stopKey(), strconv.Itoa(s.number)).Err(); err != nil {
		s.cfg.Logger.DebugContext(ctx, "stop request not removed", "err", err)
	}
	if _, err := s.sendBeat(ctx, ""); err != nil { // the other workers notice after beatLimit that this worker has left
		s.cfg.Logger.DebugContext(ctx, "last heartbeat not sent", "err", err)
	}
}

// beat sends a heartbeat, and divides the partitions among the workers that are alive. It must not
// be called concurrently.
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

// sendBeat runs beat.lua and returns the numbers of the live workers. An empty description means
// that the worker leaves.
func (s *Store) sendBeat(ctx context.Context, description string) (live []string, err error) {
	keys := []string{s.cfg.workersKey(), s.cfg.heardKey(), s.cfg.ackedKey()}
	acked := s.packAcknowledged()
	changed := acked
	if acked == s.acked && description != "" {
		changed = "" // only the last heartbeat sends the same value again, because the server may have lost it
	}
	live, err = beatScript.Run(ctx, s.client, keys, s.number, description, changed, beatLimit.Milliseconds()).StringSlice()
	if err != nil {
		return nil, s.classify(ctx, err)
	}
	s.acked = acked
	return live, nil
}

// share divides the partitions among the live workers. If a test sets the clock, this worker is in
// charge of all partitions.
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

// ownership returns, by number, which of n partitions a worker is in charge of: those for which it
// has the highest lot of all live workers (rendezvous hashing). So if a worker joins or leaves, no
// partitions move between other workers.
func ownership(n, worker int, live []int) []bool {
	mine := make([]bool, n)
	for p := range mine {
		mine[p] = !slices.ContainsFunc(live, func(other int) bool {
			return other != worker && lot(other, p) > lot(worker, p)
		})
	}
	return mine
}

// lot returns a pseudo-random number for a worker and a partition. No two workers have the same
// lot, because every step of the mixing is invertible (splitmix64).
func lot(worker, partition int) uint64 {
	x := (uint64(worker)<<32 | uint64(partition)) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Workers returns all workers that the crawl has or had, first the live ones. Within each of these
// two groups, workers are ordered by their start.
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

// pairs iterates over a reply that alternates names and values.
func pairs(values []any) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for i := 0; i+1 < len(values); i += 2 {
			if !yield(text(values[i]), text(values[i+1])) {
				return
			}
		}
	}
}

// packAcknowledged encodes the number of items for which this worker got the answer Added, by
// partition.
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
