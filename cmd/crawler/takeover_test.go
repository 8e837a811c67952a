package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// gate is a TCP proxy that can stop to forward, while its connections stay open.
type gate struct {
	listener net.Listener
	upstream string
	closed   sync.RWMutex // locked while nothing is forwarded
}

func newGate(t *testing.T, upstream string) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	g := &gate{listener: listener, upstream: upstream}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", g.upstream)
			if err != nil {
				_ = client.Close()
				continue
			}
			go g.forward(client, server)
			go g.forward(server, client)
		}
	}()
	return g
}

func (g *gate) forward(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		g.closed.RLock()
		if n > 0 {
			_, _ = to.Write(buffer[:n])
		}
		g.closed.RUnlock()
		if err != nil {
			return
		}
	}
}

// TestSilentRelayIsTakenOver: a relay is suspended, or its connection to Postgres stalls, for longer than
// its right to the name lasts. A second relay of the name takes over. When the first one goes on, it sends
// nothing more, and ends with an error. At most the events of one batch are sent twice.
func TestSilentRelayIsTakenOver(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const hosts, pages, batch = 4, 60, 64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			for page := range pages - 1 {
				fmt.Fprintf(w, "<a href=/%d>x</a>", page)
			}
		}
	}))
	t.Cleanup(site.Close)
	for _, how := range []string{"suspended", "stalled"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			hook := &webhook{got: make(map[string]int)}
			var byFirst, bySecond atomic.Int32 // number of requests
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/second" {
					bySecond.Add(1)
				} else {
					byFirst.Add(1)
				}
				time.Sleep(50 * time.Millisecond) // so that the relay is at work for some seconds
				hook.ServeHTTP(w, r)
			}))
			t.Cleanup(receiver.Close)
			database := servers.Postgres(t, servers.PostgresOptions{})
			proxied := newGate(t, database.Addr())
			temp := t.TempDir()
			start := func(said io.Writer, args ...string) *exec.Cmd {
				cmd := exec.Command(self, args...)
				cmd.Args[0], cmd.Dir, cmd.Stderr = "crawler", temp, said
				cmd.Env = append(os.Environ(), "HOME="+temp)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = cmd.Process.Kill() })
				return cmd
			}
			dir := []string{"--dir", filepath.Join(temp, "d"), "--postgres", database.DSN()}
			var said, second bytes.Buffer
			crawl := start(&said, slices.Concat([]string{"crawl"}, dir, []string{"--sink", "postgres", "--urls", "1000", "--delay", "0", "--latency-factor", "0",
				"--connect-to", "*.test=" + site.Listener.Addr().String(), "http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/"})...)
			if err := crawl.Wait(); err != nil {
				t.Fatalf("crawl: %v: %s", err, &said)
			}
			said.Reset()
			relay := slices.Concat([]string{"relay"}, dir, []string{"--to", receiver.URL + "/"})
			silent := slices.Clone(relay)
			silent[slices.Index(silent, database.DSN())] = strings.Replace(database.DSN(), database.Addr(), proxied.listener.Addr().String(), 1)
			first := start(&said, silent...)
			ended := make(chan struct{})
			go func() {
				_ = first.Wait() // judged by its exit code
				close(ended)
			}()
			hook.until(t, "the first relay sends events", func() bool { return hook.asked >= 20 })
			goOn := func() { proxied.closed.Unlock() }
			if how == "suspended" {
				goOn = func() { _ = first.Process.Signal(syscall.SIGCONT) }
				if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			} else {
				proxied.closed.Lock()
			}
			other := start(&second, append(relay[:len(relay)-1:len(relay)-1], receiver.URL+"/second", "--drain")...)
			hook.until(t, "the second relay sends events", func() bool { return bySecond.Load() > hosts })
			sent := byFirst.Load()
			goOn()
			if err := other.Wait(); err != nil {
				t.Errorf("the second relay: %v: %s", err, &second)
			}
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatal("the first relay does not end")
			}
			if code := first.ProcessState.ExitCode(); code != 1 || !strings.Contains(said.String(), "another process has taken it over") {
				t.Errorf("the first relay ended with exit code %d, want 1 and that it was taken over: %s", code, &said)
			}
			if late := byFirst.Load() - sent; late > hosts { // one for each host could be under way
				t.Errorf("the first relay sent %d events after it was taken over", late)
			}
			hook.mu.Lock()
			defer hook.mu.Unlock()
			twice := 0
			for id, times := range hook.got {
				if times > 2 {
					t.Errorf("event %s was sent %d times", id, times)
				}
				if times > 1 {
					twice++
				}
			}
			if len(hook.got) != hosts*pages || twice > batch {
				t.Errorf("%d events arrived, %d of them twice; want %d, and at most %d twice", len(hook.got), twice, hosts*pages, batch)
			}
			t.Logf("%d events were sent twice", twice)
		})
	}
}
