package exact

import (
	"context"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Outbox is the part of a Queue that remembers what could not be sent to the Set
// while that was away. It is stored with the queue, so that a note is written in
// the step that completes an item. A Relay delivers the notes in order. Several
// relays may run: each note takes effect once. Implementations are safe for
// concurrent use.
type Outbox interface {
	// Notes returns at most n notes, the oldest of one partition. An empty batch
	// means that no partition has notes.
	Notes(ctx context.Context, n int) (NoteBatch, error)
	// Delivered removes the notes of batch. In the same step it counts their links
	// that were not added: seen and refused. It returns false and changes nothing
	// if the notes are gone, because another relay delivered them or the queue
	// lost them.
	Delivered(ctx context.Context, batch NoteBatch, seen uint64, refused []frontier.Refusal) (bool, error)
	// Waits reports, index for index, which exact items are queued or leased. An
	// item stops waiting in the step that completes it.
	Waits(ctx context.Context, keys []ItemKey) ([]bool, error)
}

// ItemKey names an item in a queue.
type ItemKey struct {
	Host        string
	Fingerprint bloomstore.Fingerprint
}

// NoteBatch holds the oldest notes of one partition.
type NoteBatch struct {
	Notes     []Note
	Partition int
	Receipt   string // identifies the notes to Delivered; only the queue reads it
}

// Note is a link that the Set has to decide about or, with an Outcome, an item whose end it does
// not have.
type Note struct {
	Item    frontier.Item
	Outcome frontier.Outcome // empty for a link
	Status  int              // HTTP status, with Outcome; 0 for none
}
