package resolve

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	queryTimeout  = 5 * time.Second // as net.Resolver waits for one answer
	queryAttempts = 2               // as often as net.Resolver asks each name server
	// maxAnswerBytes is the maximum length of an answer over UDP to a query without EDNS.
	maxAnswerBytes = 512
)

// isRefused reports whether net.Resolver finds no such host without a query, although the name
// server may know it: a label of the name begins or ends with a hyphen.
func isRefused(name string) bool {
	return slices.ContainsFunc(strings.Split(strings.TrimSuffix(name, "."), "."), func(label string) bool {
		return strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-")
	})
}

// query asks the name servers for the addresses of an absolute name, which may have any labels. It
// does not read the hosts file.
func (r *Resolver) query(ctx context.Context, name string) (found []netip.Addr, err error) {
	servers := r.servers(ctx)
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		answer, fault := r.askServers(ctx, servers, name, kind)
		found, err = append(found, answer...), cmp.Or(err, fault)
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, err
}

// servers returns the addresses of the name servers: that of New, or those of the system.
func (r *Resolver) servers(ctx context.Context) []string {
	if r.server != "" {
		return []string{r.server}
	}
	var mu sync.Mutex
	var all []string
	system := net.Resolver{PreferGo: true, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(all, address) {
			all = append(all, address)
		}
		return nil, errors.New("resolve: only the address is wanted")
	}}
	_, _ = system.LookupNetIP(ctx, "ip4", "name.invalid.") // tries each server in turn
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(all)
}

// askServers asks one server after the other, until one answers.
func (r *Resolver) askServers(ctx context.Context, servers []string, name string, kind dnsmessage.Type) ([]netip.Addr, error) {
	fault := &net.DNSError{Err: "no name server is known", Name: name, IsTemporary: true}
	wanted, err := dnsmessage.NewName(name)
	if err != nil {
		return nil, &net.DNSError{Err: err.Error(), Name: name, IsNotFound: true}
	}
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: uint16(rand.Uint32()), RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: wanted, Type: kind, Class: dnsmessage.ClassINET}},
	}
	if _, err := query.Pack(); err != nil { // a label is empty or too long
		return nil, &net.DNSError{Err: err.Error(), Name: name, IsNotFound: true}
	}
	for range queryAttempts {
		for _, server := range servers {
			answer, err := r.exchange(ctx, "udp", server, &query)
			if err == nil && answer.Truncated {
				answer, err = r.exchange(ctx, "tcp", server, &query)
			}
			switch {
			case err != nil:
				fault = &net.DNSError{Err: err.Error(), Name: name, Server: server, IsTimeout: isTimeout(err), IsTemporary: true}
			case answer.RCode == dnsmessage.RCodeNameError:
				return nil, &net.DNSError{Err: "no such host", Name: name, Server: server, IsNotFound: true}
			case answer.RCode == dnsmessage.RCodeSuccess:
				return addresses(answer), nil
			default:
				fault = &net.DNSError{Err: "server misbehaving: " + answer.RCode.String(), Name: name, Server: server, IsTemporary: true}
			}
			if ctx.Err() != nil {
				return nil, fault
			}
		}
	}
	return nil, fault
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// addresses returns the addresses in an answer. The server has followed aliases.
func addresses(answer *dnsmessage.Message) (found []netip.Addr) {
	for _, resource := range answer.Answers {
		switch body := resource.Body.(type) {
		case *dnsmessage.AResource:
			found = append(found, netip.AddrFrom4(body.A))
		case *dnsmessage.AAAAResource:
			found = append(found, netip.AddrFrom16(body.AAAA))
		}
	}
	return found
}

// exchange sends a query to a name server, and returns the answer to it.
func (r *Resolver) exchange(ctx context.Context, network, server string, query *dnsmessage.Message) (*dnsmessage.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	conn, err := r.dial(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })() // ends the exchange
	packed, err := query.Pack()
	if err != nil {
		return nil, fmt.Errorf("resolve: pack a query: %w", err)
	}
	if network == "tcp" {
		packed = append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)
	}
	if _, err := conn.Write(packed); err != nil {
		return nil, err
	}
	for {
		text, err := readAnswer(conn, network)
		if err != nil {
			return nil, err
		}
		answer := new(dnsmessage.Message)
		if err := answer.Unpack(text); err == nil && answers(answer, query) {
			return answer, nil
		} else if network == "tcp" {
			return nil, fmt.Errorf("resolve: the name server %s sent no answer to the query", server)
		}
	}
}

// readAnswer reads one message.
func readAnswer(conn net.Conn, network string) ([]byte, error) {
	if network != "tcp" {
		text := make([]byte, maxAnswerBytes)
		n, err := conn.Read(text)
		return text[:n], err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	text := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(conn, text)
	return text, err
}

// answers reports whether a message is the answer to a query, and not a forged or late one.
func answers(m, query *dnsmessage.Message) bool {
	if !m.Response || m.ID != query.ID || len(m.Questions) != 1 {
		return false
	}
	got, want := m.Questions[0], query.Questions[0]
	return got.Type == want.Type && got.Class == want.Class && strings.EqualFold(got.Name.String(), want.Name.String())
}
