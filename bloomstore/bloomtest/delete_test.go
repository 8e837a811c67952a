package bloomtest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// brokenDeleter is Exact with another Delete.
type brokenDeleter struct {
	Deleter
	remove func(ctx context.Context, under Deleter, prints []bloomstore.Fingerprint) ([]bool, error)
}

func (b brokenDeleter) Delete(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	return b.remove(ctx, b.Deleter, prints)
}

// TestFindsFaultsOfDelete runs cases of the suite on filters whose Delete has one fault each. The
// named cases must fail.
func TestFindsFaultsOfDelete(t *testing.T) {
	type deletion func(ctx context.Context, under Deleter, prints []bloomstore.Fingerprint) ([]bool, error)
	first := func(under Deleter, prints []bloomstore.Fingerprint) ([]bool, error) {
		known, err := under.Contains(context.Background(), prints)
		if err == nil {
			_, err = under.Delete(context.Background(), prints)
		}
		return known, err
	}
	for _, c := range []struct {
		fault  string
		remove deletion
		caught string
	}{
		{"removes nothing", func(ctx context.Context, under Deleter, prints []bloomstore.Fingerprint) ([]bool, error) {
			return under.Contains(ctx, prints)
		}, "DeleteRemovesOnlyItsKeys DeleteOfDuplicates RacersDeleteOnce DeleteModel"},
		{"check, then delete", func(_ context.Context, under Deleter, prints []bloomstore.Fingerprint) ([]bool, error) {
			return first(under, prints)
		}, "DeleteOfDuplicates DeleteWithCancelledContext"},
		{"confirms every deletion", func(ctx context.Context, under Deleter, prints []bloomstore.Fingerprint) ([]bool, error) {
			deleted, err := under.Delete(ctx, prints)
			for i := range deleted {
				deleted[i] = true
			}
			return deleted, err
		}, "DeleteRemovesOnlyItsKeys DeleteRefusesAbsentKeys DeleteOfDuplicates RacersDeleteOnce"},
		{"removes a neighbour, too", func(ctx context.Context, under Deleter, prints []bloomstore.Fingerprint) ([]bool, error) {
			for key := range under.(*exact).known {
				if len(prints) > 0 && key[3] == prints[0][3] && !slices.Contains(prints, key) {
					delete(under.(*exact).known, key)
					break
				}
			}
			return under.Delete(ctx, prints)
		}, "DeleteRemovesOnlyItsKeys DeleteModel"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			for _, name := range strings.Fields(c.caught) {
				suite.WantCaught(t, deleteCases, name, func(t *testing.T, _ options) *deleteTrial {
					trial := newDeleteTrial(t, brokenDeleter{Exact(), c.remove})
					trial.proof = false
					return trial
				})
			}
		})
	}
}
