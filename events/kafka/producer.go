package kafka

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bloomfrontier/crawler/events"
)

// errNoAnswer reports events that the brokers did not answer in time.
var errNoAnswer = errors.New("no acknowledgement in time")

// producer is a sink without transactions. Its client is idempotent: if the client sends a
// record again because an answer was lost, the record is not stored twice.
type producer struct {
	*cluster
	client *kgo.Client

	mu      sync.Mutex
	pending map[string]*delivery // by the event's source and id
}

var _ events.Sink = (*producer)(nil)

// delivery is a record that was passed to the client. The client keeps the record even
// after Send has stopped waiting, because a new record for the same event could be stored
// in addition to the first. The next Send of the event waits for the same delivery.
type delivery struct {
	done chan struct{} // closed when err is set
	err  error
}

// Send implements events.Sink.
func (p *producer) Send(ctx context.Context, batch []events.Event) []error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, errNoAnswer)
	defer cancel()
	if err := p.ensure(ctx, p.client); err != nil {
		return slices.Repeat([]error{err}, len(batch))
	}
	errs, deliveries := make([]error, len(batch)), make([]*delivery, len(batch))
	for i := range batch {
		deliveries[i], errs[i] = p.produce(&batch[i])
	}
	for i, d := range deliveries {
		if d == nil {
			continue
		}
		select {
		case <-d.done:
			errs[i] = p.verdict(d.err)
			p.mu.Lock()
			delete(p.pending, key(&batch[i]))
			p.mu.Unlock()
		case <-ctx.Done():
			errs[i] = p.away(errNoAnswer)
		}
	}
	return errs
}

func key(e *events.Event) string { return e.Source + " " + e.ID }

// produce passes an event to the client, unless the client has it already.
func (p *producer) produce(e *events.Event) (*delivery, error) {
	r, err := record(e)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	d, known := p.pending[key(e)]
	if !known {
		d = &delivery{done: make(chan struct{})}
		p.pending[key(e)] = d
	}
	p.mu.Unlock()
	if !known {
		// The record must outlive this call of Send, and its context.
		p.client.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
			d.err = err
			close(d.done)
		})
	}
	return d, nil
}

// Close implements events.Sink. It gives up records that are not acknowledged yet.
func (p *producer) Close() error {
	p.client.Close()
	return nil
}
