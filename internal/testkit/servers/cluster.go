package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slots is the number of hash slots of a Redis Cluster.
const slots = 16_384

// ClusterOptions is the configuration of a Redis Cluster.
type ClusterOptions struct {
	Primaries   int           // 0 means 3
	Replicas    int           // of each primary
	NodeTimeout time.Duration // time after which a silent node counts as failed; 0 means 1 s
	Node        RedisOptions  // options of each node; Dir must be empty
}

// Cluster is a running Redis Cluster. Its methods are safe for concurrent use.
type Cluster struct {
	// Nodes has first the primaries, in the order of their slots, and then the
	// replicas. After the start, each replica Nodes[i] replicates Nodes[i % number of
	// primaries].
	Nodes []*RedisServer

	opt       ClusterOptions
	primaries int
}

// RedisCluster starts a Redis Cluster that is closed at the end of the test. It returns
// when all nodes agree that the cluster works. If redis-server is not installed,
// RedisCluster skips or fails the test as the function Redis does.
//
// It takes at least 2 s, because a primary refuses writes for 2 s after its start.
func RedisCluster(t TB, opt ClusterOptions) *Cluster {
	t.Helper()
	return started(t, &Cluster{opt: opt, primaries: cmp.Or(opt.Primaries, 3)})
}

func (c *Cluster) begin(ctx context.Context) error {
	if c.opt.Node.Dir != "" || c.opt.Node.TLS {
		return errors.New("the nodes of a cluster cannot share a folder, and have no TLS")
	}
	timeout := cmp.Or(c.opt.NodeTimeout, time.Second)
	node := c.opt.Node
	node.Config = map[string]string{
		"cluster-enabled":                 "yes",
		"cluster-node-timeout":            strconv.FormatInt(timeout.Milliseconds(), 10),
		"cluster-require-full-coverage":   "no",
		"cluster-replica-validity-factor": "0", // a replica can take over even if its data are old
		"repl-diskless-sync-delay":        "0",
	}
	maps.Copy(node.Config, c.opt.Node.Config)
	for range c.primaries * (1 + c.opt.Replicas) {
		server, err := StartRedis(ctx, node)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, server)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.form(ctx); err != nil {
		return fmt.Errorf("form a cluster: %w", err)
	}
	return nil
}

// form joins the new nodes into one cluster.
func (c *Cluster) form(ctx context.Context) error {
	for i, node := range c.Nodes {
		// If nodes had equal configuration epochs, they would have to resolve this
		// conflict first.
		if err := node.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return err
		}
		if i < c.primaries {
			first, next := i*slots/c.primaries, (i+1)*slots/c.primaries
			if err := node.do(ctx, "CLUSTER", "ADDSLOTSRANGE", first, next-1); err != nil {
				return err
			}
		}
		for _, other := range c.Nodes[:i] {
			if err := node.do(ctx, "CLUSTER", "MEET", "127.0.0.1", other.port); err != nil {
				return err
			}
		}
	}
	if err := c.await(ctx, c.checkAcquainted); err != nil {
		return err
	}
	for i, node := range c.Nodes[c.primaries:] {
		id, err := c.Nodes[i%c.primaries].id(ctx)
		if err != nil {
			return err
		}
		if err := node.do(ctx, "CLUSTER", "REPLICATE", id); err != nil {
			return err
		}
	}
	return c.AwaitOK(ctx)
}

// do runs a command and ignores its answer.
func (r *RedisServer) do(ctx context.Context, command ...any) error {
	if err := r.admin.Do(ctx, command...).Err(); err != nil {
		return fmt.Errorf("%v at %s: %w", command, r.Addr(), err)
	}
	return nil
}

// id returns the server's node id in its cluster.
func (r *RedisServer) id(ctx context.Context) (string, error) {
	id, err := r.admin.ClusterMyID(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("CLUSTER MYID at %s: %w", r.Addr(), err)
	}
	return id, nil
}

// Close closes all nodes: see RedisServer.Close.
func (c *Cluster) Close() error {
	var errs []error
	for _, node := range c.Nodes {
		errs = append(errs, node.Close())
	}
	return errors.Join(errs...)
}

// lastOutput returns the last lines of each node's output.
func (c *Cluster) lastOutput() string {
	var all []string
	for _, node := range c.Nodes {
		all = append(all, node.Addr()+":\n"+node.lastOutput())
	}
	return strings.Join(all, "\n")
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// URL returns the URL of the first node, but with the addresses of all nodes, separated
// by commas.
func (c *Cluster) URL() string {
	u, err := url.Parse(c.Nodes[0].URL())
	if err != nil {
		panic(err) // RedisServer.URL is valid
	}
	u.Host = strings.Join(c.Addrs(), ",")
	return u.String()
}

// AwaitOK returns when the cluster works: every slot has a primary that answers, and
// every replica is connected to its primary. All nodes must agree on this, except for
// those that are down or paused. AwaitOK also waits until restarted nodes have joined
// the cluster again.
func (c *Cluster) AwaitOK(ctx context.Context) error { return c.await(ctx, c.checkOK) }

// await repeatedly calls the function check for all nodes that answer, until check
// returns nil for each of these nodes.
func (c *Cluster) await(ctx context.Context, check func(context.Context, *RedisServer) error) error {
	return poll(ctx, func() (wrong error) {
		for _, node := range c.Nodes {
			if node.isAnswering() {
				wrong = errors.Join(wrong, check(ctx, node))
			}
		}
		return wrong
	})
}

// poll calls the function check repeatedly until check returns nil.
func poll(ctx context.Context, check func() error) error {
	for {
		wrong := check()
		if wrong == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), wrong)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// checkAcquainted returns nil if node knows all other nodes.
func (c *Cluster) checkAcquainted(ctx context.Context, node *RedisServer) error {
	members, err := members(ctx, node)
	if err != nil {
		return err
	}
	for _, member := range members {
		if member.is("handshake") {
			return fmt.Errorf("%s has not met %s yet", node.Addr(), member.addr)
		}
	}
	if len(members) != len(c.Nodes) {
		return fmt.Errorf("%s knows %d nodes, want %d", node.Addr(), len(members), len(c.Nodes))
	}
	return nil
}

// checkOK returns nil if the cluster works according to node.
func (c *Cluster) checkOK(ctx context.Context, node *RedisServer) error {
	info, err := node.admin.ClusterInfo(ctx).Result()
	if err != nil {
		return fmt.Errorf("CLUSTER INFO at %s: %w", node.Addr(), err)
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return fmt.Errorf("%s says that the cluster is down", node.Addr())
	}
	members, err := members(ctx, node)
	if err != nil {
		return err
	}
	owned, primaries := 0, 0
	for _, member := range members {
		server := c.nodeAt(member.addr)
		if server != nil && server.isAnswering() && (member.is("fail") || member.is("fail?") || member.is("handshake")) {
			return fmt.Errorf("%s does not hear %s", node.Addr(), member.addr)
		}
		if member.is("master") && !member.is("fail") {
			owned += member.owned()
			primaries++
		}
	}
	if owned != slots {
		return fmt.Errorf("%s knows the primaries of %d slots, want %d", node.Addr(), owned, slots)
	}
	if len(c.Nodes) > c.primaries && primaries > c.primaries {
		return fmt.Errorf("%s sees %d primaries, want %d", node.Addr(), primaries, c.primaries)
	}
	return checkLink(node)
}

// checkLink returns nil if node is a primary, or a replica that is connected to its
// primary.
func checkLink(node *RedisServer) error {
	role, err := node.Info("replication", "role")
	if err != nil || role == "master" {
		return err
	}
	link, err := node.Info("replication", "master_link_status")
	if err == nil && link != "up" {
		err = fmt.Errorf("%s has no link to its primary", node.Addr())
	}
	return err
}

// nodeAt returns the node with the given address, or nil if c has no such node.
func (c *Cluster) nodeAt(addr string) *RedisServer {
	if i := slices.Index(c.Addrs(), addr); i >= 0 {
		return c.Nodes[i]
	}
	return nil
}
