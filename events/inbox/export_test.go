package inbox

import (
	"context"
	"time"
)

// SetClock gives an inbox a clock other than its database's.
func (i *Inbox) SetClock(now func() time.Time) { i.now = now }

// Round runs one round of a worker of Work, which handles at most one event of each type.
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

// Statements are the texts of all statements, with the names of tables in prefix.
func Statements(prefix string) []string {
	s := statementsFor(prefix)
	return []string{s.identity, s.mark, s.remaining, s.store, s.claim, s.lock, s.finish, s.fail,
		s.dead, s.retry, s.discard, s.sweep, s.stats}
}

// Claim is claim.sql.
func Claim(prefix string) string { return statementsFor(prefix).claim }
