package exact

import (
	"context"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// NoteStore is the part of a Queue that stores notes for the Set. The Queue writes a note
// while the Set is away, in the same step that completes an item. A Forwarder delivers the
// notes in order. Several forwarders can run at once, and each note takes effect once.
// Implementations are safe for concurrent use.
type NoteStore interface {
	// Notes returns the oldest notes of one partition, at most n. An empty batch means
	// that no partition has notes.
	Notes(ctx context.Context, n int) (NoteBatch, error)
	// Delivered removes the notes of batch. The arguments seen and refused are the numbers
	// of links in these notes that were not added. Delivered counts these links in the same
	// step. It returns false and changes nothing if the notes are gone, because another
	// forwarder delivered them or the queue lost them.
	Delivered(ctx context.Context, batch NoteBatch, seen uint64, refused []frontier.Refusal) (bool, error)
	// Waits reports for each key, in order, whether its item is queued or leased. An
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
	Receipt   string // identifies the notes in Delivered; only the queue interprets it
}

// Note is a link that the Set must decide about, or a finished item whose end the Set has
// not stored yet.
type Note struct {
	Item    frontier.Item
	Outcome frontier.Outcome // empty for a link
	Status  int              // HTTP status of a finished item; 0 for none
}
