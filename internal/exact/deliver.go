package exact

import (
	"context"
	"fmt"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// drain delivers the notes of the outbox, n at a time. It returns the number of the notes that
// it delivered itself.
func (s *Store) drain(ctx context.Context, n int) (delivered uint64, err error) {
	for {
		notes, err := s.Queue.Notes(ctx, n)
		if err != nil {
			return delivered, fmt.Errorf("exact: read the outbox: %w", err)
		}
		if len(notes.Notes) == 0 {
			return delivered, nil
		}
		ours, err := s.deliver(ctx, notes)
		if err != nil {
			return delivered, err
		}
		if ours {
			delivered += uint64(len(notes.Notes))
		}
	}
}

// deliver stores notes in the set, queues their new links, and then removes the notes. It
// returns false if another forwarder has already delivered the notes. If the forwarder dies before it
// removes the notes, another forwarder gets them. The new links are then pending in the set, and a
// forwarder queues them when they are stale.
func (s *Store) deliver(ctx context.Context, notes NoteBatch) (ours bool, err error) {
	var ends []Finished
	var links []frontier.Offer
	for i := range notes.Notes {
		n := &notes.Notes[i]
		if n.Outcome == "" {
			links = append(links, n.Item.Offer())
			continue
		}
		ends = append(ends, Finished{
			Ref: Ref{n.Item.Fingerprint, n.Item.Round}, Class: n.Item.Class, Outcome: n.Outcome, Status: n.Status,
		})
	}
	if len(ends) > 0 {
		if err := s.cfg.Set.Finish(ctx, ends, nil); err != nil {
			return false, fmt.Errorf("exact: finish %d keys of the outbox: %w", len(ends), err)
		}
	}
	known, err := s.deliverLinks(ctx, links)
	if err != nil {
		return false, err
	}
	crash.Point("forwarded")
	return s.Queue.Delivered(ctx, notes, known, nil)
}

// deliverLinks asks the set about links of the outbox and queues the new ones. It returns
// the number of known links. The queue counts the other links.
func (s *Store) deliverLinks(ctx context.Context, links []frontier.Offer) (known uint64, err error) {
	if len(links) == 0 {
		return 0, nil
	}
	mine := s.exactOf(links)
	d, err := s.decide(ctx, keysOf(mine))
	if err != nil {
		return 0, err
	}
	d.apply(mine, d.at)
	var fresh offers
	for i, link := range mine.links {
		if isExact(&link) && !isNew(link.Decision) {
			known++
		} else {
			fresh.add(link, mine.prints[i])
		}
	}
	_, err = s.offer(ctx, fresh)
	return known, err
}

// offer offers new links to the queue, stores the answers in the set, and counts the links.
func (s *Store) offer(ctx context.Context, fresh offers) (counts Offered, err error) {
	if len(fresh.links) == 0 {
		return counts, nil
	}
	verdicts, err := s.Queue.Add(ctx, fresh.links)
	if err != nil {
		return counts, fmt.Errorf("exact: offer %d URLs: %w", len(fresh.links), err)
	}
	crash.Point("offered")
	answers := queueAnswers{}
	for i := range fresh.links {
		answers.setWaits(fresh, i, verdicts[i].Answer != frontier.Refused)
		switch verdicts[i].Answer {
		case frontier.Added:
			counts.Added++
		case frontier.Refused:
			counts.Refused++
		}
	}
	s.settle(ctx, answers)
	return counts, nil
}
