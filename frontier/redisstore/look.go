package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

const (
	// maxUpkeep bounds the leases and the delayed items of a partition that one step
	// handles.
	maxUpkeep = 64
	// maxSteps bounds the steps of one look. Leases and items that are left wait for
	// the next look.
	maxSteps = 16
)

// hostKeys returns the nine keys with which every script about one host begins: see host.lua.
func (p *partition) hostKeys(host string) []string {
	return []string{
		p.meta, p.due, p.leased, p.delayed, p.active(host), p.host(host),
		p.queue(0, host), p.queue(1, host), p.queue(2, host),
	}
}

// look asks each partition for at most maxHosts hosts that are due, and passes them to the
// schedule. It also does the upkeep of the partitions: it ends expired leases and queues
// delayed items that are ready. If a partition cannot be asked, look continues with the
// others.
func (s *Store) look(ctx context.Context, parts []*partition, maxHosts int) (failed error) {
	for step := 0; len(parts) > 0 && step < maxSteps; step++ {
		asked := s.now()
		peeks := make([]*call, len(parts))
		for i, p := range parts {
			peeks[i] = &call{part: p, script: peekScript, keys: []string{p.meta, p.due, p.leased, p.delayed}, args: []any{maxHosts, maxUpkeep}}
		}
		s.runAll(ctx, peeks)
		var upkeep []*call
		parts = parts[:0:0]
		for _, peek := range peeks {
			if peek.err != nil {
				failed = peek.err
				s.schedule.saw(peek.part, report{asked: asked, wait: maxLook / 4})
				continue
			}
			reply := list(peek.reply)
			r := newReport(peek.part, reply, asked)
			park := s.parkPaused(peek.part, &r)
			s.schedule.saw(peek.part, r)
			if todo := append(s.upkeep(peek.part, reply), park...); len(todo) > 0 {
				upkeep = append(upkeep, todo...)
				parts = append(parts, peek.part) // the upkeep can make more hosts due
			}
		}
		s.runAll(ctx, upkeep)
		for _, c := range upkeep {
			if c.err != nil {
				return c.err
			}
		}
	}
	return failed
}

// lookAgain looks at a partition if its next look is due. So delayed items that are ready get
// into the queues, from which Extend takes items.
func (s *Store) lookAgain(ctx context.Context, p *partition) error {
	if s.cfg.Now != nil {
		s.schedule.wake(p) // tests move the clock forward
	}
	if !s.schedule.isDue(p, s.now()) {
		return nil
	}
	return s.look(ctx, []*partition{p}, 0)
}

// newReport parses the answer of a partition to peek.lua.
func newReport(p *partition, reply []any, asked time.Time) report {
	r := report{asked: asked, server: integer(at(reply, 0))}
	hosts := list(at(reply, 3))
	for i := 0; i+1 < len(hosts); i += 2 {
		since, _ := strconv.ParseFloat(text(hosts[i+1]), 64)
		r.due = append(r.due, candidate{p, text(hosts[i]), int64(since)})
	}
	r.wait = waitOf(integer(at(reply, 2)))
	if len(r.due) == 0 { // otherwise schedule.lent sets when the next host is due
		r.wait = min(r.wait, waitOf(integer(at(reply, 1))))
	}
	return r
}

// waitOf converts a number of ms from a script to a duration of at most maxLook. A negative
// number means maxLook.
func waitOf(ms int64) time.Duration {
	if ms < 0 || ms > maxLook.Milliseconds() {
		return maxLook
	}
	return time.Duration(ms) * time.Millisecond
}

// upkeep returns the calls that follow from a partition's answer to peek.lua: they end
// expired leases and queue delayed items that are ready. If the server has restarted, or another has
// taken over (a new epoch), hold.lua also sets the time until which no host may be leased.
func (s *Store) upkeep(p *partition, reply []any) (calls []*call) {
	if integer(at(reply, 6)) == 1 {
		calls = append(calls, &call{part: p, script: holdScript, keys: []string{p.meta}, args: []any{millis(s.cfg.LeaseTTL)}})
	}
	for _, host := range list(at(reply, 4)) {
		host := text(host)
		calls = append(calls, &call{
			part: p, script: expireScript, keys: p.hostKeys(host),
			args: []any{host, s.cfg.delayMillis(host), frontier.MaxDeliveries},
		})
	}
	byHost := make(map[string]*call)
	for _, member := range list(at(reply, 5)) {
		host, ok := hostOfDelayed(text(member))
		if !ok {
			continue // the member does not have the form that hostOfDelayed reads
		}
		c := byHost[host]
		if c == nil {
			c = &call{part: p, script: readyScript, keys: p.hostKeys(host), args: []any{host}}
			byHost[host] = c
			calls = append(calls, c)
		}
		c.args = append(c.args, member)
	}
	return calls
}

// hostOfDelayed returns the host key in a member of partition.delayed.
func hostOfDelayed(member string) (string, bool) {
	if len(member) < delayedSeqBytes {
		return "", false
	}
	host, _, ok := strings.Cut(member[delayedSeqBytes:], "\x00")
	return host, ok
}

// The functions list, at, text and integer read parts of the reply of a script. The start of
// the script's file describes the reply. The functions return zero if a part is missing.
func list(reply any) []any {
	values, _ := reply.([]any)
	return values
}

func at(values []any, i int) any {
	if i >= len(values) {
		return nil
	}
	return values[i]
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

func integer(value any) int64 {
	n, _ := value.(int64)
	return n
}
