package testweb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Lookup is one question to ServeDNS, with its answer.
type Lookup struct {
	Name  string        // without the dot at its end
	Type  string        // A, AAAA or another
	Addrs []netip.Addr  // the answer
	Start time.Duration // since New
}

// nameLog keeps and counts look-ups.
type nameLog struct {
	kept  []Lookup
	asked map[string]int // number of questions, by name and type
}

// Lookups returns the look-ups so far.
func (w *Web) Lookups() []Lookup {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.names.kept)
}

// ServeDNS answers questions for the names of the addresses hardship until ctx is done,
// and then closes conn. For all other names it answers that they do not exist. It
// returns nil if it ended because ctx is done.
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

// lookUp logs a question and returns the addresses for this look-up. known reports
// whether the name exists.
func (w *Web) lookUp(question dnsmessage.Question) (addrs []netip.Addr, known bool) {
	asked := strings.ToLower(strings.TrimSuffix(question.Name.String(), "."))
	kind := strings.TrimPrefix(question.Type.String(), "Type")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names.asked == nil {
		w.names.asked = map[string]int{}
	}
	turn := w.names.asked[asked+" "+kind]
	w.names.asked[asked+" "+kind]++
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
	w.names.kept = append(w.names.kept, Lookup{asked, kind, addrs, time.Since(w.log.began)})
	return addrs, known
}
