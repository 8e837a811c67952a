package inbox

import (
	_ "embed"
	"strings"
)

// The texts of the files in the folder statements.
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

// statement returns a statement with the table names of this inbox. The argument is the text
// of a file in the folder statements.
func (i *Inbox) statement(text string) string { return withPrefix(text, i.cfg.Prefix) }

// withPrefix replaces each "inbox." in a text by prefix. In the files, the names of all
// tables begin with "inbox.".
func withPrefix(text, prefix string) string { return strings.ReplaceAll(text, "inbox.", prefix) }
