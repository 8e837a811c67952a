package proofs

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestRelayToBroker delivers the events of a crawl to a stream of a real NATS server.
// Relays with new names deliver them several times. Relays are killed at any moment and
// at crash points, and the server is killed too. In the middle there is a pause that is
// longer than the stream's duplicate window. The stream must have the events of all
// records and no others. No event is stored twice within the window, and the events of
// each host are in order.
func TestRelayToBroker(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	web := hardWeb(t, seed)
	c := newCrawl(t, append(append(hardFlags(web), "--rotate", "64KiB", "--compress"), web.Seeds()...)...)
	c.finish()
	b := &brokered{
		t: t, crawl: c, server: servers.NATS(t, servers.NATSOptions{}), rng: rand.New(rand.NewPCG(seed, 36)),
		window: sized(2*time.Second, 10*time.Second), deaths: make(map[string]int),
	}
	kills := sized(10, 300)
	for b.killed < kills/2 {
		b.life()
	}
	time.Sleep(b.window + time.Second) // from now on the stream stores repeated events again
	for b.killed < kills {
		b.life()
	}
	for done := b.name; b.name == done; { // until a relay with the current name has delivered everything
		b.run(nil)
	}
	figure(t, "killed", "%s; %d names delivered everything", formatCounts(b.deaths), b.name)
	b.judge(ids(parse(t, records(t, c.dir))), eventsIn(t, c.dir))
}

// brokered is a finished crawl whose relays deliver to a broker.
type brokered struct {
	t      *testing.T
	crawl  *crawl
	server *servers.NATSServer
	rng    *rand.Rand
	window time.Duration

	name   int            // number in the relay's name; increases when a relay has delivered everything
	killed int            // number of kills, of relays and of the server
	deaths map[string]int // number of kills, by crash point or by what was killed
}

// life runs a relay until the relay is killed or has delivered everything. In one of
// five cases, it meanwhile kills and restarts the server.
func (b *brokered) life() {
	after := time.Duration(b.rng.IntN(400)) * time.Millisecond
	switch draw := b.rng.IntN(5); draw {
	case 0:
		killed := b.run(func(pid int) {
			time.Sleep(after)
			_ = syscall.Kill(pid, syscall.SIGKILL) // it is possible that the relay has ended
		})
		if killed {
			b.deaths["any moment"]++
		}
	case 1:
		b.run(func(int) {
			time.Sleep(after)
			if err := b.server.Kill(); err != nil {
				b.t.Error(err)
			}
			if err := b.server.Restart(); err != nil {
				b.t.Error(err)
			}
		})
		b.deaths["server"]++
		b.killed++
	default:
		point := []string{"publish", "acknowledgement", "cursor"}[draw-2]
		if b.run(nil, "--crash-at", point+":"+strconv.Itoa(1+b.rng.IntN(8))) {
			b.deaths[point]++
		}
	}
}

// run runs a relay, and reports whether the relay was killed. If the function disturb is not
// nil, run calls it while the relay runs.
func (b *brokered) run(disturb func(pid int), more ...string) (killed bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience())
	defer cancel()
	cmd := exec.CommandContext(ctx, b.crawl.bin, append([]string{"relay", "--dir", b.crawl.dir, "--drain", "--quiet",
		"--relay", "index-" + strconv.Itoa(b.name), "--to", b.server.URL() + "/pages", "--create", "--duplicate-window", b.window.String(),
		"--timeout", "2s"}, more...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	disturbed := make(chan struct{})
	go func() {
		defer close(disturbed)
		if disturb != nil {
			disturb(cmd.Process.Pid)
		}
	}()
	err := cmd.Wait()
	<-disturbed
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ctx.Err() != nil:
		b.t.Fatalf("a relay did not end within %v:\n%s", patience(), said.String())
	case err == nil:
		b.name++
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		b.killed++
		return true
	default:
		b.t.Fatalf("a relay ended with %v:\n%s", err, said.String())
	}
	return false
}

// judge compares the events in the stream with the set want: the ids of the events of
// the records. The argument order has the same events, in the order of the records.
func (b *brokered) judge(want map[string]bool, order []event) {
	t := b.t
	t.Helper()
	conn, err := nats.Connect(b.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "pages")
	if err != nil {
		t.Fatal(err)
	}
	hosts, place := make(map[string]string), make(map[string]int) // by id
	for i, e := range order {
		hosts[e.ID], place[e.ID] = e.Host, i
	}
	stored := make(map[string]time.Time) // when an event was stored last
	last := make(map[string]int)         // by host, the largest place of an event that was stored so far
	within, again := 0, 0
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		id := m.Header.Get("Nats-Msg-Id")
		if before, repeat := stored[id]; repeat {
			again++
			if m.Time.Sub(before) < b.window {
				within++
			}
		} else {
			host := hosts[id]
			if place[id] < last[host] {
				t.Errorf("an event of %s was stored before an earlier one", host)
			}
			last[host] = max(last[host], place[id])
		}
		stored[id] = m.Time
	}
	if within > 0 {
		t.Errorf("%d events were stored twice within the duplicate window, want 0", within)
	}
	missing, unexpected := len(want), 0
	for id := range stored {
		if want[id] {
			missing--
		} else {
			unexpected++
		}
	}
	if missing+unexpected > 0 || len(want) == 0 {
		t.Errorf("the stream lacks %d of %d events, and has %d events without a record", missing, len(want), unexpected)
	}
	if again == 0 {
		t.Error("no event was stored again after the window, so the pause tested nothing")
	}
	figure(t, "events", "%d, %d stored again after the window", len(want), again)
}
