package redisstore

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// lossesOf returns the sums of what Lost returns.
func lossesOf(t *testing.T, s *Store) (sum Loss) {
	t.Helper()
	losses, err := s.Lost(t.Context())
	for ; errors.Is(err, frontier.ErrUnavailable); losses, err = s.Lost(t.Context()) { // the connection is from before the restart
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, loss := range losses {
		sum.Items += loss.Items
		sum.FoundAgain += loss.FoundAgain
	}
	return sum
}

// offerUntilAnswered offers items until the server answers.
func (b *epochBench) offerUntilAnswered(items []frontier.Offer) {
	b.Helper()
	_, err := b.Add(b.Context(), items)
	for ; errors.Is(err, frontier.ErrUnavailable); _, err = b.Add(b.Context(), items) {
	}
	if err != nil {
		b.Fatal(err)
	}
}

// rollBack makes the server lose everything since a dump, and restarts it.
func (b *epochBench) rollBack(before map[string]dumped) {
	b.Helper()
	b.restore(before)
	b.restart()
}

func (b *epochBench) wantLosses(when string, items, foundAgain uint64) {
	b.Helper()
	other, err := Inspect(b.Context(), config(b.server)) // no worker: it knows what the server knows
	if err != nil {
		b.Fatal(err)
	}
	defer other.Close()
	for who, s := range map[string]*Store{"the worker": b.Store, "another process": other} {
		if got, want := lossesOf(b.T, s), (Loss{Items: items, FoundAgain: foundAgain}); got != want {
			b.Errorf("%s: Lost of %s is %d, %d found again, want %d, %d", when, who, got.Items, got.FoundAgain, items, foundAgain)
		}
	}
}

// TestLostIsFoundAgain: the server loses items twice. Those that are offered again count as found
// again, those that are not offered again count as lost.
func TestLostIsFoundAgain(t *testing.T) {
	t.Parallel()
	b := newEpochBench(t)
	mustAdd(t, b.Store, testPages("a.test", 0, 9))
	first := b.dump()
	mustAdd(t, b.Store, testPages("a.test", 9, 20))
	mustAdd(t, b.Store, testPages("b.test", 0, 10))
	b.rollBack(first)
	b.offerUntilAnswered(testPages("a.test", 5, 12)) // three of them are new again
	b.wantLosses("after the first loss", 21, 3)
	b.offerUntilAnswered(testPages("b.test", 0, 10))
	b.wantLosses("when more was offered again", 21, 13)
	second := b.dump()
	b.offerUntilAnswered(testPages("a.test", 12, 15))
	b.offerUntilAnswered(testPages("c.test", 0, 4))
	b.wantLosses("before the second loss", 21, 16)
	b.rollBack(second)
	b.offerUntilAnswered(testPages("d.test", 0, 1))
	b.wantLosses("after the second loss", 28, 13)
	b.offerUntilAnswered(testPages("a.test", 12, 20))
	b.offerUntilAnswered(testPages("c.test", 0, 3))
	b.wantLosses("at the end", 28, 27) // c.test/3 is really lost
}

// TestIdleWorkerNamesLosses: a worker that adds nothing after the loss names its lost items, too.
func TestIdleWorkerNamesLosses(t *testing.T) {
	t.Parallel()
	b := newEpochBench(t)
	before := b.dump()
	mustAdd(t, b.Store, testPages("a.test", 0, 7))
	b.rollBack(before)
	for err := b.nameLosses(t.Context()); err != nil; err = b.nameLosses(t.Context()) {
		if !errors.Is(err, frontier.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	b.wantLosses("after the loss", 7, 0)
	other := openStore(t, config(b.server))
	mustAdd(t, other, testPages("a.test", 0, 5))
	b.wantLosses("when another worker has found five", 7, 5)
}

// TestLedgerKeepsTheNewest fills a ledger so that its file is overwritten. It still names the
// newest additions, and an answer that arrives after the comparison is lost at once.
func TestLedgerKeepsTheNewest(t *testing.T) {
	t.Parallel()
	l := &ledger{dir: t.TempDir(), parts: make([]partLedger, 2)}
	defer l.close()
	parts := []*partition{newPartition("x", 0), newPartition("x", 1)}
	print := func(n uint64) (p bloomstore.Fingerprint) {
		binary.LittleEndian.PutUint64(p[:], n)
		return p
	}
	first, second := new(epoch), new(epoch)
	const added = maxAdditions + 3*4096
	if err := l.compare(map[int]uint64{0: 0, 1: 0}, first); err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); n <= added; n++ {
		l.add(parts[n%2], first, n, print(n))
	}
	survived := uint64(added - 10_000)
	if err := l.compare(map[int]uint64{0: survived, 1: added}, second); err != nil {
		t.Fatal(err)
	}
	l.add(parts[0], first, added+2, print(added+2))
	var want []byte
	for n := survived + 2; n <= added+2; n += 2 {
		p := print(n)
		want = append(want, p[:]...)
	}
	if got := l.parts[0].lost; !slices.Equal(got, want) {
		t.Errorf("the ledger names %d lost items, want %d", len(got)/printBytes, len(want)/printBytes)
	}
	if got := len(l.parts[1].lost); got > 0 {
		t.Errorf("the ledger names %d lost items of a partition that lost none", got/printBytes)
	}
}
