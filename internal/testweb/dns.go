package testweb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// Lookup is a question to ServeDNS.
type Lookup struct {
	Name string // without the dot at its end
	Type string // A, AAAA or another
}

// Lookups returns how often each question was asked so far.
func (w *Web) Lookups() map[Lookup]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.lookups)
}

// ServeDNS answers questions for names, until ctx is done, and then closes conn. It knows the
// names that the hardship "addresses" uses. For all other names it answers that they do not
// exist. It returns nil if it ended because ctx is done.
func (w *Web) ServeDNS(ctx context.Context, conn net.PacketConn) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	packet := make([]byte, 4<<10)
	for {
		n, from, err := conn.ReadFrom(packet)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return errors.Join(fmt.Errorf("read a DNS question: %w", err), conn.Close())
		}
		if reply, err := w.resolve(packet[:n]); err == nil { // malformed questions get no answer
			_, _ = conn.WriteTo(reply, from)
		}
	}
}

// resolve returns the reply to a message with one question.
func (w *Web) resolve(packet []byte) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(packet)
	if err != nil {
		return nil, err
	}
	question, err := p.Question()
	if err != nil {
		return nil, err
	}
	addrs, known := w.lookUp(question)
	header.Response, header.Authoritative, header.RecursionAvailable = true, true, true
	if header.RCode = dnsmessage.RCodeSuccess; !known {
		header.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, header)
	errs := []error{b.StartQuestions(), b.Question(question), b.StartAnswers()}
	resource := dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class} // a TTL of 0 forbids caching
	for _, ip := range addrs {
		if question.Type == dnsmessage.TypeA {
			errs = append(errs, b.AResource(resource, dnsmessage.AResource{A: ip.As4()}))
		} else {
			errs = append(errs, b.AAAAResource(resource, dnsmessage.AAAAResource{AAAA: ip.As16()}))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b.Finish()
}

// lookUp counts a question and returns the addresses for this look-up. known reports
// whether the name exists.
func (w *Web) lookUp(question dnsmessage.Question) (addrs []netip.Addr, known bool) {
	asked := strings.ToLower(strings.TrimSuffix(question.Name.String(), "."))
	kind := strings.TrimPrefix(question.Type.String(), "Type")
	w.mu.Lock()
	defer w.mu.Unlock()
	turn := w.lookups[Lookup{asked, kind}]
	w.lookups[Lookup{asked, kind}]++
	for i := range names {
		if names[i].host+nameSuffix != asked || !w.has(Addresses) {
			continue
		}
		known = true
		turns := names[i].turns
		for _, ip := range turns[min(turn, len(turns)-1)] {
			if isType := question.Type == dnsmessage.TypeA && ip.Is4() || question.Type == dnsmessage.TypeAAAA && !ip.Is4(); isType {
				addrs = append(addrs, ip)
			}
		}
	}
	return addrs, known
}
