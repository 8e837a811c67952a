package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/bloomfrontier/crawler/internal/resolve/resolvetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, server string) *Resolver {
	t.Helper()
	r, err := New(server)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// TestHalfAnAnswer: a name is not said to have no address, if the query for IPv4 addresses failed
// and there is no IPv6 address.
func TestHalfAnAnswer(t *testing.T) {
	server := resolvetest.Serve(t, func(string, int) []netip.Addr { return addrs("192.0.2.1") })
	server.RefuseIPv4(true)
	r := open(t, server.Addr)
	_, err := r.Lookup(t.Context(), "a.test")
	if dns, is := errors.AsType[*net.DNSError](err); !is || dns.IsNotFound {
		t.Errorf("error %v, want one that may go away", err)
	}
	server.RefuseIPv4(false)
	if got, err := r.Lookup(t.Context(), "a.test"); err != nil || len(got) != 1 {
		t.Errorf("%v, %v after the failure, want an address", got, err)
	}
}

func TestLookupAddresses(t *testing.T) {
	server := resolvetest.Serve(t, func(name string, _ int) []netip.Addr {
		return map[string][]netip.Addr{
			"four.test":  addrs("192.0.2.1", "192.0.2.2"),
			"six.test":   addrs("2001:db8::1"),
			"both.test":  addrs("192.0.2.1", "2001:db8::1"),
			"inner.test": addrs("::ffff:192.0.2.9"),
		}[name]
	})
	r := open(t, server.Addr)
	for host, want := range map[string]int{"four.test": 2, "FOUR.Test.": 2, "six.test": 1, "both.test": 2, "inner.test": 1} {
		for range 2 {
			got, err := r.Lookup(t.Context(), host)
			if err != nil || len(got) != want {
				t.Errorf("%s: %v, %v, want %d addresses", host, got, err, want)
			}
			for _, ip := range got {
				if ip.Is4In6() {
					t.Errorf("%s: %v, want IPv4 addresses in their own form", host, ip)
				}
			}
		}
	}
	for range 2 {
		_, err := r.Lookup(t.Context(), "gone.test")
		dns := new(net.DNSError)
		if !errors.As(err, &dns) || !dns.IsNotFound || dns.Name != "gone.test" {
			t.Errorf("Lookup(gone.test): %#v, want a DNSError with IsNotFound and this name", err)
		}
	}
	for name, want := range map[string]int{"four.test": 1, "gone.test": 2} { // New says why one without address is asked for again
		if got := server.Asked(name); got != want {
			t.Errorf("%s was asked for %d times, want %d", name, got, want)
		}
	}
	// An absolute name must not be looked up in the search domains of this machine.
	server.Each(func(name string) {
		if !strings.HasSuffix(name, ".test") {
			t.Errorf("the name server was asked for %s, want only names in .test", name)
		}
	})
}

// TestAnswersExpire replaces the network with a server in memory, so that the test uses the fake
// clock of synctest.
func TestAnswersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var answer []netip.Addr
		var fault error
		r := open(t, "")
		r.ask = func(context.Context, string, string) ([]netip.Addr, error) {
			asked++
			return answer, fault
		}
		lookup := func(want int, wantFault bool) {
			t.Helper()
			if _, err := r.Lookup(t.Context(), "h.test"); (err != nil) != wantFault {
				t.Errorf("Lookup: error %v, want an error: %v", err, wantFault)
			}
			if asked != want {
				t.Errorf("the name server was asked %d times, want %d", asked, want)
			}
		}
		answer = addrs("192.0.2.1")
		lookup(1, false)
		time.Sleep(5*time.Minute - 1)
		lookup(1, false)
		time.Sleep(time.Nanosecond)
		answer = nil
		lookup(2, true)
		time.Sleep(time.Minute - 1)
		lookup(2, true)
		time.Sleep(time.Nanosecond)
		fault = &net.DNSError{Err: "timeout", IsTimeout: true}
		lookup(3, true) // this error is not kept
		lookup(4, true)
		fault, answer = nil, addrs("192.0.2.1")
		lookup(5, false)
	})
}

func TestBoundsOfCache(t *testing.T) {
	r := open(t, "")
	r.maxNames = 10
	r.ask = func(context.Context, string, string) ([]netip.Addr, error) {
		return make([]netip.Addr, 100), nil
	}
	var workers sync.WaitGroup
	for worker := range 4 {
		workers.Go(func() {
			for i := range 50 {
				if found, err := r.Lookup(t.Context(), fmt.Sprintf("%d-%d.test", worker, i)); err != nil || len(found) != maxAddrs {
					t.Errorf("Lookup returned %d addresses, %v, want %d", len(found), err, maxAddrs)
				}
			}
		})
	}
	workers.Wait()
	if n := len(r.young) + len(r.old); n < 5 || n > 10 {
		t.Errorf("%d names are kept, want 5 to 10", n)
	}
}

// TestRecentNamesAreKept: a name that is looked up again and again stays in the cache, however
// many others are looked up.
func TestRecentNamesAreKept(t *testing.T) {
	r := open(t, "")
	r.maxNames = 10
	asked := map[string]int{}
	r.ask = func(_ context.Context, _, name string) ([]netip.Addr, error) {
		asked[name]++
		return addrs("192.0.2.1"), nil
	}
	for i := range 100 {
		for _, name := range []string{"often.test", fmt.Sprintf("%d.test", i)} {
			if _, err := r.Lookup(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if asked["often.test."] != 1 {
		t.Errorf("often.test was looked up %d times, want once", asked["often.test."])
	}
}

// TestParallelLookups: a bounded number of look-ups run at the same time, and a caller
// whose context ends while it waits gets ErrServer.
func TestParallelLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parallel = 4
		r := open(t, "")
		r.asking = make(chan struct{}, parallel)
		var under, most atomic.Int32
		r.ask = func(context.Context, string, string) ([]netip.Addr, error) {
			if now := under.Add(1); now > most.Load() {
				most.Store(now)
			}
			defer under.Add(-1)
			time.Sleep(time.Second)
			return addrs("192.0.2.1"), nil
		}
		var callers sync.WaitGroup
		for i := range 40 {
			callers.Go(func() {
				if _, err := r.Lookup(t.Context(), fmt.Sprintf("%d.test", i)); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if n := r.Waiting(); n != 40 {
			t.Errorf("%d callers wait, want 40", n)
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := r.Lookup(short, "late.test"); !errors.Is(err, ErrServer) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller whose context ended while it waited got %v, want ErrServer", err)
		}
		callers.Wait()
		if most.Load() != parallel || r.Waiting() != 0 {
			t.Errorf("%d look-ups were under way at once, want %d; %d callers wait, want none", most.Load(), parallel, r.Waiting())
		}
	})
}

// TestServerThatAnswersNothing: failed look-ups return ErrServer while the name server is dead,
// except the first few. They do not while the server answers for another name, or before it has
// ever answered.
func TestServerThatAnswersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, "")
		r.TTL = time.Second
		dead := false // whether the name server is dead
		r.ask = func(_ context.Context, _, name string) ([]netip.Addr, error) {
			if dead || name != "good.test." {
				return nil, &net.DNSError{Err: "server misbehaving", Name: name}
			}
			return addrs("192.0.2.1"), nil
		}
		fail := func(n int) (servers int) {
			for i := range n {
				_, err := r.Lookup(t.Context(), fmt.Sprintf("bad%d.test", i))
				if err == nil {
					t.Fatal("a bad name has an address")
				}
				if errors.Is(err, ErrServer) {
					servers++
				}
			}
			return servers
		}
		if n := fail(50); n != 0 {
			t.Errorf("before the server has answered, %d of 50 failures are ErrServer, want none", n)
		}
		if _, err := r.Lookup(t.Context(), "good.test"); err != nil {
			t.Fatal(err)
		}
		if n := fail(50); n != 0 {
			t.Errorf("while the server answers, %d of 50 failures are ErrServer, want none", n)
		}
		dead = true
		time.Sleep(probeEvery)
		if n := fail(50); n < 50-suspicious {
			t.Errorf("while the server is dead, %d of 50 failures are ErrServer, want at least %d", n, 50-suspicious)
		}
		dead = false
		time.Sleep(probeEvery)
		if n := fail(50); n != 0 {
			t.Errorf("after the server came back, %d of 50 failures are ErrServer, want none", n)
		}
	})
}

// TestNoDescriptors: if no file descriptor is free, the error is an ErrServer, and no answer is
// kept for the name.
func TestNoDescriptors(t *testing.T) {
	server := resolvetest.Serve(t, func(string, int) []netip.Addr { return addrs("192.0.2.1") })
	r := open(t, server.Addr)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(restore)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Lookup(t.Context(), "a.test"); !errors.Is(err, ErrServer) || !errors.Is(err, syscall.EMFILE) {
		t.Errorf("without descriptors: %v, want ErrServer and EMFILE", err)
	}
	restore()
	if got, err := r.Lookup(t.Context(), "a.test"); err != nil || len(got) != 1 {
		t.Errorf("with descriptors again: %v, %v, want one address", got, err)
	}
}

func TestNewNamesTheFault(t *testing.T) {
	for _, server := range []string{"dns.test", "1.2.3", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:x", ":53", "udp://1.2.3.4"} {
		if _, err := New(server); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", server)) {
			t.Errorf("New with the server %q: %v, want an error that names it", server, err)
		}
	}
	for server, want := range map[string]string{"1.2.3.4": "1.2.3.4:53", "1.2.3.4:54": "1.2.3.4:54", "::1": "[::1]:53", "[::1]": "[::1]:53", "[::1]:54": "[::1]:54"} {
		if got, err := parseServer(server); err != nil || got.String() != want {
			t.Errorf("parseServer(%q) = %v, %v, want %s", server, got, err, want)
		}
	}
}
