package frontier

import (
	"reflect"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// TestAnswerWords: String returns a word for each answer, which other processes and logs use
// instead of the number. The zero value is not an answer.
func TestAnswerWords(t *testing.T) {
	for answer, want := range map[Answer]string{Seen: "seen", Added: "added", Refused: "refused", 0: "Answer(0)"} {
		if got := answer.String(); got != want {
			t.Errorf("Answer(%d) is %q, want %q", uint8(answer), got, want)
		}
	}
}

// TestItemOfOffer: Offer.Item and Item.Offer copy every field that both types have,
// including fields that are added later.
func TestItemOfOffer(t *testing.T) {
	offer := Offer{
		URL: "http://a.test/", Host: "a.test", Depth: 1, Hops: 2, Priority: PriorityAsset, Class: Exact,
		Referrer: Referrer{3}, Delay: time.Second, Submission: "k",
	}
	print := bloomstore.Fingerprint{5}
	item := offer.Item(print)
	if item.Fingerprint != print || item.Attempts != 0 || item.Deliveries != 0 {
		t.Errorf("the item is %+v, want fingerprint %x, no attempts and no deliveries", item, print)
	}
	back := item.Offer()
	if back.Delay != 0 {
		t.Errorf("the item's offer is %+v, want no delay", back)
	}
	given, made, again := reflect.ValueOf(offer), reflect.ValueOf(item), reflect.ValueOf(back)
	for _, field := range reflect.VisibleFields(given.Type()) {
		want := given.FieldByIndex(field.Index)
		if want.IsZero() {
			t.Errorf("the test's offer has no %s, want one in every field", field.Name)
		}
		got := made.FieldByName(field.Name)
		if !got.IsValid() {
			continue // an item has no such field
		}
		if !got.Equal(want) || !again.FieldByIndex(field.Index).Equal(want) {
			t.Errorf("%s is %v in the item and %v in its offer, want %v", field.Name, got, again.FieldByIndex(field.Index), want)
		}
	}
}

// TestLinkCountsAddUp: Count counts each link in the counter of its answer, and Found
// is the sum of these counters.
func TestLinkCountsAddUp(t *testing.T) {
	var n LinkCounts
	for answer, links := range map[Answer]uint64{Added: 1, Seen: 20, Refused: 300, 0: 50000} {
		n.Count(answer, links)
		n.Count(answer, links)
	}
	if want := (LinkCounts{Found: 642, Added: 2, Seen: 40, Refused: 600}); n != want {
		t.Errorf("counted %+v, want %+v", n, want)
	}
}
