package frontier

import (
	"context"
	"slices"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// Content identifies what an item showed: the first half of a SHA-256. The zero value means that nothing is known.
type Content [16]byte

// Showed is what an item showed that a Completion finishes. It is optional.
//
// A store remembers for each Content the first item that showed it, exactly and for as long as the crawl exists. Stores that do
// not remember contents ignore Showed.
type Showed struct {
	Content Content
	// First is called before Record with the first item that showed this content, which can be the item itself.
	First func(first Referrer)
	// WithLinks identifies the content together with the set of its links. If an earlier item showed the same, Complete refuses
	// all links of the completion for ReasonDuplicate. The zero value means that the links are followed.
	WithLinks Content
}

// Contents remembers contents for a store that does not do it itself. It is safe for concurrent use.
type Contents interface {
	// First returns for each element the first item that showed its content, of all calls ever made. When it returns, the items are
	// stored. The error is ErrUnavailable while they cannot be stored; then the call can be repeated.
	First(ctx context.Context, showed []ShowedBy) ([]Referrer, error)
}

// ShowedBy says that an item showed a content.
type ShowedBy struct {
	Content Content
	Item    bloomstore.Fingerprint
}

// withoutLinks returns the completion with its links refused for ReasonDuplicate.
func (c *Completion) withoutLinks() *Completion {
	if c.LinkAnswered != nil {
		for i := range c.Links {
			c.LinkAnswered(i, Verdict{Answer: Refused, Reason: ReasonDuplicate})
		}
	}
	without := *c
	without.Links = nil
	without.Refused = append(slices.Clip(c.Refused), Refusal{ReasonDuplicate, uint64(len(c.Links))})
	return &without
}

// ShowedFirst tells a completion which item was the first with each of its contents, as the function first returns it: itself, if no item
// was before. It returns the completion that takes effect, which can lack its links. Stores call it.
func (c *Completion) ShowedFirst(first func(Content) (Referrer, error)) (*Completion, error) {
	own := ReferrerOf(c.Item)
	if c.Disposition != Finish || c.Showed.Content == (Content{}) {
		return c, nil
	}
	by, err := first(c.Showed.Content)
	if err != nil {
		return nil, err
	}
	if c.Showed.First != nil {
		c.Showed.First(by)
	}
	if c.Showed.WithLinks == (Content{}) {
		return c, nil
	}
	if by, err = first(c.Showed.WithLinks); err != nil || by == own || len(c.Links) == 0 {
		return c, err
	}
	return c.withoutLinks(), nil
}
