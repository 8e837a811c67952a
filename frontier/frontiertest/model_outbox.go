package frontiertest

import (
	"slices"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/exact"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// decide makes an item what an exact set would say of it that knows all that was
// ever added: what waits is offered as if it were new, which must be safe.
func (p *player) decide(item *frontier.Item) {
	if !p.beside || item.Class == frontier.Bulk {
		return
	}
	k := p.ledger.urls[item.URL]
	switch {
	case k != nil && (k.state == frontier.Done || k.state == frontier.Failed):
		item.Decision = frontier.Known
	case p.chance(70):
		item.Decision = frontier.New
	default:
		item.Decision, item.Round = frontier.Again, uint32(p.rng.IntN(300))
	}
}

// links returns items as links, some of which are to be decided later.
func (p *player) links(n int) []frontier.Item {
	items := p.items(n)
	for i := range items {
		if items[i].Decision != frontier.Undecided && p.chance(20) {
			items[i].Decision, items[i].Round = frontier.Later, 0
		}
	}
	return items
}

// relay brings some notes where they belong.
func (p *player) relay() {
	if !p.beside {
		return
	}
	p.Note("relay")
	outbox := p.Crawl.(exact.Outbox)
	batch, err := outbox.Notes(p.Ctx, 1+p.rng.IntN(5))
	p.Must(err, "Notes")
	if len(batch.Notes) == 0 && len(p.ledger.notes) > 0 {
		p.Failf("Notes returned none, want some of %d", len(p.ledger.notes))
	}
	seen := uint64(0)
	for _, note := range batch.Notes {
		p.deliver(note, &seen)
	}
	for i := range 1 + p.rng.IntN(2) { // the second call is a repeat
		dropped, err := outbox.Delivered(p.Ctx, batch, seen, nil)
		p.Must(err, "Delivered")
		if dropped != (i == 0 && len(batch.Notes) > 0) {
			p.Failf("Delivered of %d notes, call %d = %t", len(batch.Notes), i, dropped)
		}
	}
	p.ledger.stats.Found += seen
	p.ledger.stats.Seen += seen
}

// deliver takes one note off the ledger's and offers its link, if it is of one
// that was never added; else it counts it as seen.
func (p *player) deliver(note exact.Note, seen *uint64) {
	bare := note
	bare.Item.Fingerprint = frontier.Item{}.Fingerprint
	i := slices.Index(p.ledger.notes, bare)
	if i < 0 {
		p.Failf("the note %+v was never made, or was delivered", note)
	}
	p.ledger.notes = slices.Delete(p.ledger.notes, i, i+1)
	if note.Outcome != "" {
		return
	}
	p.decide(&note.Item)
	if note.Item.Decision == frontier.Known {
		*seen++
		return
	}
	want := p.ledger.offer([]frontier.Item{note.Item}, p.Clock.Now())
	if got := p.offer(note.Item); got[0] != want[0] {
		p.Failf("the noted %q: %v %q, want %v %q", suite.Cut(note.Item.URL), got[0].Answer, got[0].Reason, want[0].Answer, want[0].Reason)
	}
}

// bareNote is a note as the ledger keeps it.
func bareNote(item frontier.Item) exact.Note {
	item.Fingerprint = frontier.Item{}.Fingerprint
	return noteOf(item)
}
