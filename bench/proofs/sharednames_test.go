package proofs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// hub is a web with one page that links to one page on each of many hosts.
type hub struct {
	addr   string
	leaves []string // URLs of the pages that the hub links to

	asked  chan struct{} // closed when the hub's page is requested
	answer chan struct{} // closed by the test, so that the hub's page is answered
}

const hubURL = "http://hub.test/"

func serveHub(t *testing.T, leaves int) *hub {
	t.Helper()
	h := &hub{asked: make(chan struct{}), answer: make(chan struct{})}
	var page strings.Builder
	for n := range leaves {
		h.leaves = append(h.leaves, fmt.Sprintf("http://leaf-%d.test/", n))
		fmt.Fprintf(&page, "<a href=%q>leaf</a>\n", h.leaves[n])
	}
	asked := sync.OnceFunc(func() { close(h.asked) })
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case r.Host == "hub.test":
			asked()
			_ = await(r.Context(), h.answer)
			_, _ = io.WriteString(w, page.String())
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients can break off requests
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	h.addr = server.Listener.Addr().String()
	return h
}

// withoutReplica chooses a primary that has no keys of the hub's host, and no keys that
// concern the whole crawl. It waits until the primary's replica has all data of the primary.
// Then it kills the replica, and returns the primary and the replica.
func withoutReplica(ctx context.Context, cluster *servers.Cluster) (primary, replica *servers.RedisServer, err error) {
	for _, node := range cluster.Nodes[:3] {
		hub, err := node.Client().Keys(ctx, "*hub.test*").Result()
		if err != nil {
			return nil, nil, err
		}
		crawl, err := node.Client().Keys(ctx, "crawler:*").Result()
		if err != nil {
			return nil, nil, err
		}
		if len(hub)+len(crawl) == 0 {
			primary = node
		}
	}
	if primary == nil {
		return nil, nil, errors.New("every primary has keys of the hub's host or of the whole crawl")
	}
	if replica, err = cluster.ReplicaOf(ctx, primary); err != nil {
		return nil, nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := cluster.AwaitReplica(bounded, primary, replica); err != nil {
		return nil, nil, err
	}
	return primary, replica, errors.Join(replica.FlushAOF(ctx), replica.Kill())
}

// TestSharedFailoverNames kills a primary that has received links of a page, and lets a
// replica without these links take over. With --redis-wait 0, the page is done before the
// failover. The audit must name as many lost URLs as there are missing records at the end.
// With --redis-wait 1, the page is done only after the replica has the links, and no
// record must be missing.
func TestSharedFailoverNames(t *testing.T) {
	t.Parallel()
	for wait := range sized(1, 2) { // --redis-wait 1 takes longer
		t.Run(fmt.Sprintf("redis-wait=%d", wait), func(t *testing.T) {
			t.Parallel()
			proveFailoverNames(t, wait)
		})
	}
}

func proveFailoverNames(t *testing.T, wait int) {
	cluster := servers.RedisCluster(t, servers.ClusterOptions{Replicas: 1, Node: servers.RedisOptions{AppendOnly: true}})
	web := serveHub(t, sized(60, 600))
	flags := []string{"--scope", "any", "--connect-to", "*=" + web.addr, "--lease-time", "20s",
		"--partitions", "32", "--urls", "20000", "--log-level", "warn", "--redis-wait", strconv.Itoa(wait), hubURL}
	m := newTeam(t, cluster.URL(), rand.New(rand.NewPCG(1, 1)), append([]string{"--max-pages", "1"}, flags...)...)
	ctx := t.Context()
	var primary, replica *servers.RedisServer
	failOver := func() error {
		if err := errors.Join(primary.Kill(), replica.Restart()); err != nil {
			return err
		}
		return errors.Join(cluster.AwaitPrimary(ctx, replica), primary.Restart(), cluster.AwaitOK(ctx))
	}
	m.trouble = func() (err error) {
		defer close(web.answer)
		if err = await(ctx, web.asked); err == nil {
			primary, replica, err = withoutReplica(ctx, cluster)
		}
		return err
	}
	if wait > 0 { // the page is done only after the failover
		alone := m.trouble
		m.trouble = func() error {
			if err := alone(); err != nil {
				return err
			}
			time.Sleep(3 * time.Second) // long enough for the page to be done with --redis-wait 0
			return failOver()
		}
	}
	m.run(1)
	if wait == 0 {
		if err := failOver(); err != nil {
			t.Fatal(err)
		}
	}
	m.flags, m.trouble, m.over = flags, nil, false
	m.run(1)
	recorded := make(map[string]bool)
	for _, l := range parse(t, m.export()) {
		recorded[l.URL] = true
	}
	missing := 0
	for _, leaf := range web.leaves {
		if !recorded[leaf] {
			missing++
		}
	}
	audit := m.audit()
	figure(t, "missing", "%d of %d, %s: %d", missing, len(web.leaves), lostTerm, audit.lost)
	switch {
	case !recorded[hubURL]:
		t.Error("the page that links to the others has no record")
	case wait == 1 && missing > 0:
		t.Errorf("%d pages have no record, want 0: the page with their links was completed after a replica had them", missing)
	case wait == 0 && (missing == 0 || audit.lost != uint64(missing) || audit.code == 0):
		t.Errorf("%d pages have no record, the audit names %d lost URLs, exit code %d; want at least 1, as many, and not 0:\n%s",
			missing, audit.lost, audit.code, audit.text)
	}
}
