package frontiertest

import (
	"slices"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// decide sets the decision of an exact offer. It decides like an exact set that contains
// every added URL, with one difference. For a URL that is queued or leased, an exact set
// would decide Known. Here decide chooses New or Again, to check that the store answers such
// an offer with Seen.
func (p *player) decide(offer *frontier.Offer) {
	if !p.beside || offer.Class == frontier.Bulk {
		return
	}
	k := p.ledger.urls[offer.URL]
	switch {
	case k != nil && (k.state == frontier.Done || k.state == frontier.Failed):
		offer.Decision = frontier.Known
	case p.chance(70):
		offer.Decision = frontier.New
	default:
		offer.Decision, offer.Round = frontier.Again, uint32(p.rng.IntN(300))
	}
}

// links returns at most n random offers for the links of a page. Some exact offers have the
// decision Later.
func (p *player) links(n int) []frontier.Offer {
	links := p.randomOffers(n)
	for i := range links {
		if links[i].Decision != frontier.Undecided && p.chance(20) {
			links[i].Decision, links[i].Round = frontier.Later, 0
		}
	}
	return links
}

// forward does what the forwarder of a worker does: it reads some notes from the outbox, offers
// their links, and removes the notes with Delivered.
func (p *player) forward() {
	if !p.beside {
		return
	}
	p.Note("forward")
	outbox := p.Crawl.(exact.NoteStore)
	batch, err := outbox.Notes(p.Ctx, 1+p.rng.IntN(5))
	p.Must(err, "Notes")
	p.Require(len(batch.Notes) != 0 || len(p.ledger.notes) == 0, "Notes returned none, want some of %d", len(p.ledger.notes))
	seen := uint64(0)
	for _, note := range batch.Notes {
		p.deliver(note, &seen)
	}
	for i := range 1 + p.rng.IntN(2) { // the second call is a repeat
		dropped, err := outbox.Delivered(p.Ctx, batch, seen, nil)
		p.Must(err, "Delivered")
		p.Require(dropped == (i == 0 && len(batch.Notes) > 0),
			"Delivered of %d notes, call %d = %t, want true only for call 0, with notes", len(batch.Notes), i, dropped)
	}
	p.ledger.stats.Found += seen
	p.ledger.stats.Seen += seen
}

// deliver removes one note from the ledger. If it is the note of a link, deliver offers
// the link. If an exact set would know the URL of the link, deliver adds 1 to *seen instead.
func (p *player) deliver(note exact.Note, seen *uint64) {
	bare := note
	bare.Item.Fingerprint = bloomstore.Fingerprint{}
	i := slices.Index(p.ledger.notes, bare)
	p.Require(i >= 0, "the note %+v was never made, or was delivered before", note)
	p.ledger.notes = slices.Delete(p.ledger.notes, i, i+1)
	if note.Outcome != "" {
		return
	}
	link := note.Item.Offer()
	p.decide(&link)
	if link.Decision == frontier.Known {
		*seen++
		return
	}
	want := p.ledger.offer([]frontier.Offer{link}, p.Clock.Now())
	got := p.offer(link)
	p.Require(got[0] == want[0],
		"link %q of a note: answer %v, reason %q, want %v, %q",
		suite.Cut(link.URL), got[0].Answer, got[0].Reason, want[0].Answer, want[0].Reason)
}
