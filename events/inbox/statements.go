package inbox

import (
	_ "embed"
	"strings"
)

var (
	//go:embed statements/identity.sql
	identitySQL string
	//go:embed statements/mark.sql
	markSQL string
	//go:embed statements/remaining.sql
	remainingSQL string
	//go:embed statements/store.sql
	storeSQL string
	//go:embed statements/claim.sql
	claimSQL string
	//go:embed statements/lock.sql
	lockSQL string
	//go:embed statements/finish.sql
	finishSQL string
	//go:embed statements/fail.sql
	failSQL string
	//go:embed statements/dead.sql
	deadSQL string
	//go:embed statements/retry.sql
	retrySQL string
	//go:embed statements/discard.sql
	discardSQL string
	//go:embed statements/sweep.sql
	sweepSQL string
	//go:embed statements/stats.sql
	statsSQL string
)

// statements has the texts of the files in the folder statements, with the names of the
// tables of one inbox.
type statements struct {
	identity, mark, remaining, store, claim, lock, finish, fail, dead, retry, discard, sweep, stats string
}

func statementsFor(prefix string) statements {
	named := func(text string) string { return withPrefix(text, prefix) }
	return statements{
		identity: named(identitySQL), mark: named(markSQL), remaining: named(remainingSQL),
		store: named(storeSQL), claim: named(claimSQL), lock: named(lockSQL),
		finish: named(finishSQL), fail: named(failSQL), dead: named(deadSQL), retry: named(retrySQL),
		discard: named(discardSQL), sweep: named(sweepSQL), stats: named(statsSQL),
	}
}

// withPrefix replaces "inbox.", with which the files write the names of tables, by prefix.
func withPrefix(text, prefix string) string { return strings.ReplaceAll(text, "inbox.", prefix) }
