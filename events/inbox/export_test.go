package inbox

import (
	"context"
	"time"
)

// SetClock replaces the clock of an inbox. The default is the clock of its database.
func (i *Inbox) SetClock(now func() time.Time) { i.now = now }

// Round does what a worker of Work does in one round: it handles at most one event of each
// type.
func (i *Inbox) Round(ctx context.Context, cfg WorkConfig) (found bool, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return false, err
	}
	var types []string
	for name := range cfg.Handlers {
		types = append(types, name)
	}
	return worker{i, cfg, types}.round(ctx, ctx), nil
}

// Statements returns the texts of all SQL statements of this package. The argument prefix is
// the prefix of the tables' names in these texts.
func Statements(prefix string) []string {
	all := []string{identitySQL, markSQL, remainingSQL, storeSQL, claimSQL, lockSQL, finishSQL, failSQL,
		deadSQL, retrySQL, discardSQL, sweepSQL, statsSQL}
	for i := range all {
		all[i] = withPrefix(all[i], prefix)
	}
	return all
}

// Claim returns the text of claim.sql. The argument prefix is as in Statements.
func Claim(prefix string) string { return withPrefix(claimSQL, prefix) }
