package resolve

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bloomfrontier/crawler/internal/resolve/resolvetest"
)

// TestHyphensAtAnEnd: names that net.Resolver refuses have the same kinds of answers as others.
func TestHyphensAtAnEnd(t *testing.T) {
	server := resolvetest.Serve(t, func(name string, _ int) []netip.Addr {
		return map[string][]netip.Addr{
			"-both.test": addrs("192.0.2.1", "2001:db8::1"), "six-.test": addrs("2001:db8::1"), "a.-b-.test": addrs("192.0.2.1", "192.0.2.2"),
			"-": addrs("192.0.2.3"),
		}[name]
	})
	r := open(t, server.Addr)
	for host, want := range map[string]int{"-both.test": 2, "-BOTH.test.": 2, "six-.test": 1, "a.-b-.test": 2, "-": 1} {
		if got, err := r.Lookup(t.Context(), host); err != nil || len(got) != want {
			t.Errorf("%s: %v, %v, want %d addresses", host, got, err, want)
		}
	}
	for _, host := range []string{"-gone.test", "-a..test", "-" + strings.Repeat("a", 63) + ".test", "-" + strings.Repeat(".a", 130)} {
		_, err := r.Lookup(t.Context(), host)
		if dns, ok := errors.AsType[*net.DNSError](err); !ok || !dns.IsNotFound || dns.Name != host {
			t.Errorf("Lookup(%s): %v, want a DNSError with IsNotFound and this name", host, err)
		}
	}
	server.Refuse(true)
	_, err := r.Lookup(t.Context(), "-refused.test")
	if dns, ok := errors.AsType[*net.DNSError](err); !ok || dns.IsNotFound || server.Asked("-refused.test") != queryAttempts {
		t.Errorf("%v after %d queries, want a DNSError without IsNotFound after %d", err, server.Asked("-refused.test"), queryAttempts)
	}
}

func TestIsRefused(t *testing.T) {
	for name, want := range map[string]bool{
		"-a.test": true, "a-.test": true, "a.test-": true, "a.test-.": true, "-": true, "a.-.b": true,
		"a.test": false, "a--b.test": false, "xn--a.test.": false, "a": false, "": false, "_a-b_.test": false,
	} {
		if isRefused(name) != want {
			t.Errorf("isRefused(%q) = %t, want %t", name, !want, want)
		}
	}
}

// TestServersOfTheSystem: the name servers of the system are known without a query.
func TestServersOfTheSystem(t *testing.T) {
	servers := open(t, "").servers(t.Context())
	if len(servers) == 0 {
		t.Error("no name server, want those of the system")
	}
	for _, server := range servers {
		if _, err := netip.ParseAddrPort(server); err != nil {
			t.Errorf("name server %q: %v", server, err)
		}
	}
}

// TestQueryOverTCP: an answer that is too long for UDP is requested over TCP. Answers to other queries
// are ignored.
func TestQueryOverTCP(t *testing.T) {
	udp, tcp := listenBoth(t)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer udp.Close()
	defer tcp.Close()
	serving.Go(func() { serveTruncated(udp) })
	serving.Go(func() { serveTCP(t, tcp) })
	found, err := open(t, udp.LocalAddr().String()).Lookup(t.Context(), "-long.test")
	if want := addrs("192.0.2.7", "192.0.2.7"); err != nil || !slices.Equal(found, want) {
		t.Errorf("Lookup: %v, %v, want the addresses %v that are sent over TCP", found, err, want)
	}
}

// listenBoth listens on a port over UDP and TCP.
func listenBoth(t *testing.T) (udp net.PacketConn, tcp net.Listener) {
	t.Helper()
	for range 100 { // the port may be in use over UDP
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			return udp, tcp
		}
		tcp.Close()
	}
	t.Fatal("found no port that is free over UDP and TCP")
	return nil, nil
}

// reply returns the answer to a query with the same address, whatever its type is.
func reply(query []byte, change func(*dnsmessage.Message)) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response = true
	m.Answers = []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: [4]byte{192, 0, 2, 7}},
	}}
	change(&m)
	packed, _ := m.Pack() // what was unpacked can be packed
	return packed
}

// serveTruncated answers each query four times: with a wrong id, with another name, with a query, and
// with an answer that is too long.
func serveTruncated(udp net.PacketConn) {
	buf := make([]byte, 1<<10)
	for {
		n, from, err := udp.ReadFrom(buf)
		if err != nil {
			return
		}
		for _, change := range []func(*dnsmessage.Message){
			func(m *dnsmessage.Message) { m.ID++ },
			func(m *dnsmessage.Message) { m.Questions[0].Name = dnsmessage.MustNewName("other.test.") },
			func(m *dnsmessage.Message) { m.Response = false },
			func(m *dnsmessage.Message) { m.Truncated, m.Answers = true, nil },
		} {
			_, _ = udp.WriteTo(reply(buf[:n], change), from) // on error the client asks again
		}
	}
}

// serveTCP answers one query for each connection.
func serveTCP(t *testing.T, tcp net.Listener) {
	for {
		conn, err := tcp.Accept()
		if err != nil {
			return
		}
		query, err := readAnswer(conn, "tcp")
		if err != nil {
			t.Error(err)
		}
		answer := reply(query, func(*dnsmessage.Message) {})
		_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
		conn.Close()
	}
}
