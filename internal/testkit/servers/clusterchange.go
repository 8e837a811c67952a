package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// SlotOf returns the hash slot of a key.
func (c *Cluster) SlotOf(ctx context.Context, key string) (int, error) {
	for _, node := range c.Nodes {
		if node.isAnswering() {
			slot, err := node.admin.ClusterKeySlot(ctx, key).Result()
			return int(slot), err
		}
	}
	return 0, errors.New("no node of the cluster answers")
}

// PrimaryOf returns the node that owns the slot of a key, according to the first
// node that answers.
func (c *Cluster) PrimaryOf(ctx context.Context, key string) (*RedisServer, error) {
	slot, err := c.SlotOf(ctx, key)
	if err != nil {
		return nil, err
	}
	owner, err := c.find(ctx, func(m member) bool { return m.owns(slot) })
	if err != nil {
		return nil, fmt.Errorf("primary of slot %d: %w", slot, err)
	}
	return owner, nil
}

// ReplicaOf returns a replica of a primary, even if the primary is down.
func (c *Cluster) ReplicaOf(ctx context.Context, primary *RedisServer) (*RedisServer, error) {
	leader := ""
	_, err := c.find(ctx, func(m member) bool {
		if m.addr == primary.Addr() {
			leader = m.id
		}
		return leader != ""
	})
	if err != nil {
		return nil, err
	}
	replica, err := c.find(ctx, func(m member) bool { return m.leader == leader && !m.is("fail") })
	if err != nil {
		return nil, fmt.Errorf("replica of %s: %w", primary.Addr(), err)
	}
	return replica, nil
}

// AwaitReplica waits until a replica has applied all writes that its primary executed before
// the call, from any client. The command WAIT would not suffice: it waits only for the
// writes of the connection that sends it.
func (c *Cluster) AwaitReplica(ctx context.Context, primary, replica *RedisServer) error {
	written, err := primary.number("replication", "master_repl_offset")
	if err != nil {
		return err
	}
	return poll(ctx, func() error {
		if err := checkLink(replica); err != nil {
			return err
		}
		applied, err := replica.number("replication", "slave_repl_offset")
		if err == nil && applied < written {
			err = fmt.Errorf("%s has applied %.0f bytes of %.0f", replica.Addr(), applied, written)
		}
		return err
	})
}

// find gets the list of all members from the first node that answers. It returns the
// first member for which the function want returns true.
func (c *Cluster) find(ctx context.Context, want func(member) bool) (*RedisServer, error) {
	for _, node := range c.Nodes {
		if !node.isAnswering() {
			continue
		}
		members, err := members(ctx, node)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(members, want)
		if at < 0 {
			return nil, fmt.Errorf("%s knows no such node", node.Addr())
		}
		if server := c.nodeAt(members[at].addr); server != nil {
			return server, nil
		}
		return nil, fmt.Errorf("%s is not one of our nodes", members[at].addr)
	}
	return nil, errors.New("no node of the cluster answers")
}

// Failover makes a replica the primary, and returns when all nodes know the new
// primary. If the old primary answers, the two nodes agree on the change, and no write
// is lost. Otherwise, writes that the replica has not received are lost.
func (c *Cluster) Failover(ctx context.Context, replica *RedisServer) error {
	leader, err := replica.Info("replication", "master_port")
	if err != nil {
		return err
	}
	command := []any{"CLUSTER", "FAILOVER"}
	if primary := c.nodeAt("127.0.0.1:" + leader); primary == nil || !primary.isAnswering() {
		command = append(command, "FORCE")
	}
	if err := replica.do(ctx, command...); err != nil {
		return err
	}
	return c.AwaitPrimary(ctx, replica)
}

// AwaitPrimary returns when all nodes that answer see node as a primary with slots.
// Some time after a primary stops answering, a replica of it becomes the primary by
// itself.
func (c *Cluster) AwaitPrimary(ctx context.Context, node *RedisServer) error {
	return c.await(ctx, func(ctx context.Context, asked *RedisServer) error {
		members, err := members(ctx, asked)
		if err != nil {
			return err
		}
		for _, m := range members {
			if m.addr == node.Addr() && m.is("master") && m.owned() > 0 {
				return nil
			}
		}
		return fmt.Errorf("%s does not see %s as a primary", asked.Addr(), node.Addr())
	})
}

// MigrateSlot moves a slot with its keys from one primary to another: it calls
// OpenSlot, then MoveKeys until no key is left, and then CloseSlot. Clients can use the
// slot meanwhile.
func (c *Cluster) MigrateSlot(ctx context.Context, slot int, from, to *RedisServer) error {
	if err := c.OpenSlot(ctx, slot, from, to); err != nil {
		return err
	}
	for {
		const batch = 10 // small, because both servers block while they move keys
		moved, err := c.MoveKeys(ctx, slot, batch, from, to)
		if err != nil {
			return err
		}
		if moved == 0 {
			return c.CloseSlot(ctx, slot, from, to)
		}
	}
}

// OpenSlot begins to move a slot. From then on, if the old primary has none of a
// command's keys, it redirects the command to the new primary (ASK). If it has only
// some of the keys, it refuses the command (TRYAGAIN).
func (c *Cluster) OpenSlot(ctx context.Context, slot int, from, to *RedisServer) error {
	source, err := from.id(ctx)
	if err != nil {
		return err
	}
	target, err := to.id(ctx)
	if err != nil {
		return err
	}
	if err := to.do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", source); err != nil {
		return err
	}
	return from.do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
}

// MoveKeys moves up to n keys of an open slot, and returns the number of moved keys,
// which is 0 if no key is left.
func (c *Cluster) MoveKeys(ctx context.Context, slot, n int, from, to *RedisServer) (moved int, err error) {
	keys, err := from.admin.ClusterGetKeysInSlot(ctx, slot, n).Result()
	if err != nil {
		return 0, fmt.Errorf("keys of slot %d at %s: %w", slot, from.Addr(), err)
	}
	if len(keys) == 0 {
		return 0, nil
	}
	const timeoutMillis = 10_000
	command := []any{"MIGRATE", "127.0.0.1", to.port, "", 0, timeoutMillis, "AUTH2", adminUser, "none", "KEYS"}
	for _, key := range keys {
		command = append(command, key)
	}
	return len(keys), from.do(ctx, command...)
}

// CloseSlot makes the new primary the owner of an open slot without keys. The new primary
// gets the command SETSLOT first, so that no node ever sees the slot without an owner.
func (c *Cluster) CloseSlot(ctx context.Context, slot int, from, to *RedisServer) error {
	target, err := to.id(ctx)
	if err != nil {
		return err
	}
	told := []*RedisServer{to, from}
	for _, node := range c.Nodes {
		if role, err := node.Info("replication", "role"); err == nil && role == "master" && !slices.Contains(told, node) {
			told = append(told, node)
		}
	}
	for _, node := range told {
		if err := node.do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", target); err != nil {
			return err
		}
	}
	return nil
}
