package servers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// member describes a node of a cluster: one line of the answer to CLUSTER NODES.
type member struct {
	id     string
	addr   string
	flags  []string // "master", "slave", "fail", "fail?", "handshake", …
	leader string   // the id of its primary; "-" if it is a primary itself
	ranges [][2]int // the first and the last slot of each range that it owns
}

func (m member) is(flag string) bool { return slices.Contains(m.flags, flag) }

// owned returns the number of slots that the member owns.
func (m member) owned() int {
	n := 0
	for _, r := range m.ranges {
		n += r[1] - r[0] + 1
	}
	return n
}

func (m member) owns(slot int) bool {
	return slices.ContainsFunc(m.ranges, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

// members returns the members of the cluster according to node.
func members(ctx context.Context, node *RedisServer) ([]member, error) {
	text, err := node.admin.ClusterNodes(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("CLUSTER NODES at %s: %w", node.Addr(), err)
	}
	var all []member
	for line := range strings.Lines(text) {
		member, err := parseMember(line)
		if err != nil {
			return nil, fmt.Errorf("CLUSTER NODES at %s: %q: %w", node.Addr(), line, err)
		}
		all = append(all, member)
	}
	return all, nil
}

// parseMember parses "ID HOST:PORT@BUS[,NAME] FLAGS LEADER PING PONG EPOCH LINK
// SLOTS…". Slots are "7" or "0-5460". parseMember ignores slots in brackets, which are
// migrating.
func parseMember(line string) (member, error) {
	fields := strings.Fields(line)
	if len(fields) < 8 {
		return member{}, fmt.Errorf("%d fields, want 8 or more", len(fields))
	}
	addr, _, _ := strings.Cut(fields[1], "@")
	m := member{id: fields[0], addr: addr, flags: strings.Split(fields[2], ","), leader: fields[3]}
	for _, field := range fields[8:] {
		if strings.HasPrefix(field, "[") {
			continue
		}
		first, last, isRange := strings.Cut(field, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return member{}, err
		}
		to, err := strconv.Atoi(last)
		if err != nil {
			return member{}, err
		}
		m.ranges = append(m.ranges, [2]int{from, to})
	}
	return m, nil
}
