// Package resolvetest has a DNS server for tests. The test chooses the answers. The server
// listens on the loopback interface and forwards nothing.
package resolvetest

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Answer returns the addresses of a name; none means that the name does not exist. The
// argument earlier is the number of earlier look-ups of the name, so that the answer can
// change. Answer is called from one goroutine at a time.
type Answer func(name string, earlier int) []netip.Addr

// Server is a DNS server.
type Server struct {
	Addr string // the address on which it listens, for resolve.New

	answer  Answer
	delay   atomic.Int64 // in ns
	refuses atomic.Bool
	noIPv4  atomic.Bool
	mu      sync.Mutex
	asked   map[dnsmessage.Question]int
}

// Delay delays each later answer by d.
func (s *Server) Delay(d time.Duration) { s.delay.Store(int64(d)) }

// Refuse sets whether the server answers with SERVFAIL.
func (s *Server) Refuse(refuse bool) { s.refuses.Store(refuse) }

// RefuseIPv4 sets whether the server answers queries for IPv4 addresses with SERVFAIL.
func (s *Server) RefuseIPv4(refuse bool) { s.noIPv4.Store(refuse) }

// Serve starts a server that ends with the test.
func Serve(t testing.TB, answer Answer) *Server {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: conn.LocalAddr().String(), answer: answer, asked: make(map[dnsmessage.Question]int)}
	var running sync.WaitGroup
	stop := make(chan struct{})
	running.Go(func() { s.run(conn, stop, &running) })
	t.Cleanup(func() { close(stop); conn.Close(); running.Wait() })
	return s
}

// Asked returns how often name, in lower case and without a final dot, was
// looked up.
func (s *Server) Asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := 0
	for question, asked := range s.asked {
		if plain(question.Name) == name {
			most = max(most, asked)
		}
	}
	return most
}

// Each calls the function visit for each name that was looked up. The name is in lower case
// and without a final dot.
func (s *Server) Each(visit func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for question := range s.asked {
		visit(plain(question.Name))
	}
}

func plain(name dnsmessage.Name) string {
	return strings.ToLower(strings.TrimSuffix(name.String(), "."))
}

func (s *Server) run(conn net.PacketConn, stop <-chan struct{}, running *sync.WaitGroup) {
	buf := make([]byte, 1<<10)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buf[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		reply := s.reply(query.ID, query.Questions[0])
		packed, err := reply.Pack()
		if err != nil {
			continue
		}
		delay := time.Duration(s.delay.Load())
		if delay == 0 {
			_, _ = conn.WriteTo(packed, from) // on error the client gets no answer and asks again
			continue
		}
		running.Go(func() {
			select {
			case <-time.After(delay):
				_, _ = conn.WriteTo(packed, from)
			case <-stop:
			}
		})
	}
}

// reply answers one question. A look-up sends one question for each address family.
func (s *Server) reply(id uint16, question dnsmessage.Question) dnsmessage.Message {
	s.mu.Lock()
	asked := s.asked[question]
	s.asked[question]++
	addrs := s.answer(plain(question.Name), asked)
	s.mu.Unlock()
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{question},
	}
	if s.refuses.Load() || question.Type == dnsmessage.TypeA && s.noIPv4.Load() {
		reply.RCode = dnsmessage.RCodeServerFailure
		return reply
	}
	if len(addrs) == 0 {
		reply.RCode = dnsmessage.RCodeNameError
	}
	for _, ip := range addrs {
		header := dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class}
		switch {
		case question.Type == dnsmessage.TypeA && ip.Is4():
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: ip.As4()}})
		case question.Type == dnsmessage.TypeAAAA && !ip.Is4():
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
		}
	}
	return reply
}
