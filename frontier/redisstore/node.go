package redisstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/groupcommit"
)

// node is one server that holds partitions.
type node struct {
	client   *redis.Client // never repeats a command on its own
	renewing sync.Mutex    // held while an epoch begins, so that scripts are loaded once
	epoch    atomic.Pointer[epoch]
	offers   *groupcommit.Queue[*offering]
	calls    *groupcommit.Queue[*call]
}

func (s *Store) newNode(client *redis.Client) *node {
	n := &node{client: client}
	n.offers, n.calls = s.newOfferQueue(n), s.newCallQueue(n)
	return n
}

// epoch is the time between two restarts of a node, as this process knows it. The texts of the
// scripts contain the run id, so that their hashes differ for each epoch.
type epoch struct {
	node *node
	run  string             // the server's run id
	sha  map[*script]string // of the loaded texts
}

// errEpoch reports that a node is not in the epoch that a call or an answer requires. A call
// with this error did not run.
var errEpoch = fmt.Errorf("%w: the server was restarted or replaced", frontier.ErrUnavailable)

// nodes are the servers of a crawl. If there is only one server, it is in the field single.
type nodes struct {
	cluster *redis.ClusterClient // nil means that there is one server
	single  *node

	mu    sync.Mutex
	known map[*redis.Client]*node
}

// connect creates the clients. They never repeat a command on their own, except Store.client
// of a cluster, which follows redirections.
func (s *Store) connect(ctx context.Context) error {
	opt := *s.cfg.Redis
	opt.MaxRetries, opt.DialerRetries = -1, max(opt.DialerRetries, 1)
	opt.DisableIdentity = true
	opt.ContextTimeoutEnabled = true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	s.client = redis.NewUniversalClient(&opt)
	if client, ok := s.client.(*redis.Client); ok {
		server := client.InfoMap(ctx, "server")
		switch err := server.Err(); {
		case err == nil:
		case opt.MasterName != "" && errors.Is(err, redis.Nil):
			return fmt.Errorf("%w: no Sentinel knows a primary with the name %q", ErrServer, opt.MasterName)
		case opt.MasterName != "" && strings.Contains(err.Error(), "unknown command"):
			return fmt.Errorf("%w: it is no Sentinel: want a URL that begins with redis:// or rediss://", ErrServer)
		default:
			return s.classify(ctx, err)
		}
		switch server.Item("Server", "redis_mode") {
		case "cluster":
		case "sentinel":
			return fmt.Errorf("%w: it is a Sentinel: want its URL in the form redis+sentinel://HOST:PORT[,HOST:PORT...]/MASTER", ErrServer)
		default:
			s.nodes.single = s.newNode(client)
			return nil
		}
		if opt.MasterName != "" {
			return fmt.Errorf("%w: a primary of Sentinel is a node of a cluster: want its own URL", ErrServer)
		}
		opt.IsClusterMode = true // one address of a cluster is enough to find the others
		if err := client.Close(); err != nil {
			return s.classify(ctx, err)
		}
		s.client = redis.NewUniversalClient(&opt)
	}
	s.nodes.cluster = s.client.(*redis.ClusterClient)
	s.nodes.known = make(map[*redis.Client]*node)
	return nil
}

// nodeOf returns the node that holds a partition, as last known.
func (s *Store) nodeOf(ctx context.Context, p *partition) (*node, error) {
	if s.nodes.single != nil {
		return s.nodes.single, nil
	}
	if n := p.node.Load(); n != nil && !p.misplaced.Load() {
		return n, nil
	}
	client, err := s.nodes.cluster.MasterForKey(ctx, p.meta)
	if err != nil {
		return nil, s.classify(ctx, err)
	}
	s.nodes.mu.Lock()
	n := s.nodes.known[client]
	if n == nil {
		n = s.newNode(client)
		s.nodes.known[client] = n
	}
	s.nodes.mu.Unlock()
	p.misplaced.Store(false)
	switch p.node.Load() {
	case n:
	case nil:
		p.node.Store(n)
	default:
		s.changeEpoch(func() { p.node.Store(n) })
	}
	return n, nil
}

// epochOf returns the epoch of a node. It begins one if none is known.
func (s *Store) epochOf(ctx context.Context, n *node) (*epoch, error) {
	if ep := n.epoch.Load(); ep != nil {
		return ep, nil
	}
	return s.renew(ctx, n, nil)
}

// renew loads the scripts on a node and returns its current epoch. It is called if the node has
// no epoch yet (old is nil), or answered NOSCRIPT in the epoch old. If the node has not restarted,
// but has only dropped its scripts, renew returns old.
func (s *Store) renew(ctx context.Context, n *node, old *epoch) (*epoch, error) {
	n.renewing.Lock()
	defer n.renewing.Unlock()
	if now := n.epoch.Load(); now != old {
		return now, nil // another call has done it
	}
	run, err := s.checkServer(ctx, n.client)
	if err != nil {
		return nil, s.classify(ctx, err)
	}
	if run == "" {
		return nil, errors.New("redisstore: INFO server names no run_id")
	}
	ep := old
	if old == nil || old.run != run {
		ep = &epoch{node: n, run: run, sha: make(map[*script]string)}
	}
	// The run id is read again on the connection that loads the scripts. It must be the run id
	// in their texts.
	pipe := n.client.Pipeline()
	check := pipe.InfoMap(ctx, "server")
	for _, sc := range scripts {
		text := sc.textIn(run, s.cfg.edit)
		if ep != old {
			ep.sha[sc] = sha(text)
		}
		pipe.ScriptLoad(ctx, text)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, s.classify(ctx, err)
	}
	if check.Item("Server", "run_id") != run {
		return nil, errEpoch
	}
	if ep != old {
		s.changeEpoch(func() { n.epoch.Store(ep) })
		s.spawn(func(ctx context.Context) { s.renewLog(ctx, ep) })
	}
	return ep, nil
}

// call is one run of a script on the node of a partition.
type call struct {
	part     *partition
	script   *script
	keys     []string   // all in part
	args     []any      // from ARGV[2] on; ARGV[1] is the store's clock
	required *epoch     // the only epoch in which the call runs: in another epoch, err is errEpoch; nil means any epoch
	lease    *heldLease // the lease whose items it completes; nil if it completes none

	joined *call // the call to which joinCalls added the completions of this call, or nil

	reply any    // nil, int64, string or []any of these
	ran   *epoch // the epoch in which it ran, or may have run
	err   error  // classified
}

// runAll runs calls and sets their results. The calls of one node run in order, in one
// pipeline. Different nodes run concurrently. It never runs a call twice.
func (s *Store) runAll(ctx context.Context, calls []*call) {
	byNode := make(map[*node][]*call, 1)
	for _, c := range calls {
		n, err := s.nodeOf(ctx, c.part)
		if err != nil {
			c.err = err
			continue
		}
		byNode[n] = append(byNode[n], c)
	}
	var group sync.WaitGroup
	for n, calls := range byNode {
		group.Go(func() { s.runOn(ctx, n, calls) })
	}
	group.Wait()
}

// runOn runs calls on a node. If the node lacks the scripts, the calls do not run. Then runOn loads
// the scripts and sends the calls again.
func (s *Store) runOn(ctx context.Context, n *node, calls []*call) {
	ep, err := s.epochOf(ctx, n)
	for attempt := 0; err == nil && len(calls) > 0; attempt++ {
		if attempt == 3 {
			err = fmt.Errorf("%w: the server forgets its scripts", frontier.ErrUnavailable)
		} else if calls = s.send(ctx, ep, calls); len(calls) > 0 {
			ep, err = s.renew(ctx, n, ep)
		}
	}
	for _, c := range calls {
		c.err = err
	}
}

// send runs calls in an epoch and returns those whose script is not loaded there.
func (s *Store) send(ctx context.Context, ep *epoch, calls []*call) (unknown []*call) {
	pipe := ep.node.client.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		if c.required != nil && c.required != ep {
			c.err = errEpoch
			continue
		}
		args := make([]any, 0, 4+len(c.keys)+len(c.args))
		args = append(args, "evalsha", ep.sha[c.script], len(c.keys))
		for _, key := range c.keys {
			args = append(args, key)
		}
		args = append(append(args, s.clock()), c.args...)
		cmds[i] = pipe.Do(ctx, args...)
	}
	_, failed := pipe.Exec(ctx)
	for i, c := range calls {
		if cmds[i] == nil {
			continue
		}
		c.reply, c.err = result(cmds[i], failed)
		switch {
		case c.err == nil:
		case errors.Is(c.err, redis.Nil):
			c.err = nil
		case strings.HasPrefix(c.err.Error(), "NOSCRIPT"):
			c.err = nil
			unknown = append(unknown, c)
			continue
		default:
			s.misplaced(ctx, c.part, c.err)
			c.err = s.classify(ctx, c.err)
		}
		c.ran = ep
	}
	return unknown
}

// result returns the reply to a command of a pipeline. The argument failed is the error of the
// pipeline. If the server refuses a new connection, for example because of a wrong password, the
// command is not sent, and it has neither a reply nor an error.
func result(cmd *redis.Cmd, failed error) (any, error) {
	reply, err := cmd.Result()
	if err == nil && reply == nil {
		err = failed
	}
	return reply, err
}

// pipelined sends one command for each element of list in one pipeline, and returns the commands.
func pipelined[E any, C redis.Cmder](
	ctx context.Context, client redis.Cmdable, list []E, command func(redis.Pipeliner, E) C,
) ([]C, error) {
	cmds := make([]C, len(list))
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, e := range list {
			cmds[i] = command(pipe, e)
		}
		return nil
	})
	return cmds, err
}

// txError returns the error of a transaction. If the server refused one of its commands, err says
// only that the transaction was discarded, and the error of that command says why.
func txError(cmds []redis.Cmder, err error) error {
	if redis.IsExecAbortError(err) {
		for _, cmd := range cmds {
			if refused := cmd.Err(); refused != nil && !redis.IsExecAbortError(refused) {
				return refused
			}
		}
	}
	return err
}

// misplaced forgets the node of a partition if err can mean that the partition has moved. Then the
// next call asks the cluster for the node.
func (s *Store) misplaced(ctx context.Context, p *partition, err error) {
	_, replied := errors.AsType[redis.Error](err)
	_, moved := redis.IsMovedError(err)
	if s.nodes.cluster != nil && (!replied || moved || redis.IsReadOnlyError(err) || redis.IsClusterDownError(err)) {
		p.misplaced.Store(true)
		s.nodes.cluster.ReloadState(ctx)
	}
}

// temporaryErrors are prefixes of errors of Redis after which the caller must wait and repeat
// its call.
var temporaryErrors = []string{
	"MOVED ", "ASK ", "TRYAGAIN ", "CLUSTERDOWN ", "LOADING ", "READONLY ", "MASTERDOWN ", "BUSY ",
	"MISCONF ", "NOREPLICAS ", "UNKILLABLE ", "ERR max number of clients",
}

// endOf returns why a context has ended, or nil. If the deadline has passed, endOf waits for
// the end of the context, because a connection with the same deadline can time out a moment
// earlier.
func endOf(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return context.Cause(ctx)
}

// classify turns an error of a client into the error for a caller: the cause if the caller's
// context has ended, frontier.ErrUnavailable for a temporary error, or the error itself. Errors
// of clients contain no credentials.
func (s *Store) classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ended := endOf(ctx); ended != nil {
		return ended
	}
	for _, own := range []error{frontier.ErrUnavailable, frontier.ErrFilterLost, frontier.ErrParamsMismatch, ErrServer} {
		if errors.Is(err, own) {
			return err
		}
	}
	reply, replied := errors.AsType[redis.Error](err)
	if !replied { // an error of the network or the pool, or a time-out
		// go-redis also closes the client of a node that has left the cluster.
		if errors.Is(err, redis.ErrClosed) && s.life.Err() != nil {
			return frontier.ErrClosed
		}
		if s.nodes.cluster != nil { // the node may have been removed
			s.nodes.cluster.ReloadState(ctx)
		}
		return fmt.Errorf("%w: %w", frontier.ErrUnavailable, err)
	}
	if redis.IsOOMError(err) { // calls that need no memory still work
		return fmt.Errorf("%w: %w: %w", frontier.ErrUnavailable, frontier.ErrFull, err)
	}
	for _, prefix := range temporaryErrors {
		if strings.HasPrefix(reply.Error(), prefix) {
			return fmt.Errorf("%w: %w", frontier.ErrUnavailable, err)
		}
	}
	if said := withoutUser(reply.Error()); said != reply.Error() {
		return errors.New("redisstore: " + said)
	}
	return fmt.Errorf("redisstore: %w", err)
}

// namesUser matches the beginning of a reply of newer servers that refuse a command.
var namesUser = regexp.MustCompile(`^NOPERM User \S+ has`)

// withoutUser returns the text of a reply without the user.
func withoutUser(reply string) string {
	return namesUser.ReplaceAllString(reply, "NOPERM this user has")
}
