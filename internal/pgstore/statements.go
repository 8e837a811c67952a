package pgstore

import (
	_ "embed"
	"regexp"
	"strconv"
)

// Statements that do not use the tables of one crawl.
var (
	//go:embed statements/schema_version.sql
	schemaVersionSQL string
	//go:embed statements/find_crawl.sql
	findCrawlSQL string
	//go:embed statements/create_crawl.sql
	createCrawlSQL string
	//go:embed statements/drop_crawl.sql
	dropCrawlSQL string
	//go:embed statements/windows.sql
	windowsSQL string
	//go:embed statements/keep.sql
	keepSQL string
	//go:embed statements/kept.sql
	keptSQL string
	//go:embed statements/allow_scans.sql
	allowScansSQL string
	//go:embed statements/notify.sql
	notifySQL string
	//go:embed statements/relay.sql
	relaySQL string
	//go:embed statements/relay_names.sql
	relayNamesSQL string
	//go:embed statements/save_relay.sql
	saveRelaySQL string
	//go:embed statements/lock_relay.sql
	lockRelaySQL string
	//go:embed statements/dead_letters.sql
	deadLettersSQL string
	//go:embed statements/revise_letters.sql
	reviseLettersSQL string
	//go:embed statements/discard_letters.sql
	discardLettersSQL string
	//go:embed statements/capture.sql
	captureSQL string
	//go:embed statements/captured.sql
	capturedSQL string
)

// Statements that use the tables of one crawl. Their files have the names of the template
// tables, which namedFor replaces.
var (
	//go:embed statements/look_up.sql
	lookUpSQL string
	//go:embed statements/insert_missing.sql
	insertMissingSQL string
	//go:embed statements/insert_waiting.sql
	insertWaitingSQL string
	//go:embed statements/raise_floor.sql
	raiseFloorSQL string
	//go:embed statements/lock_keys.sql
	lockKeysSQL string
	//go:embed statements/renew.sql
	renewSQL string
	//go:embed statements/queued.sql
	queuedSQL string
	//go:embed statements/withdraw.sql
	withdrawSQL string
	//go:embed statements/finish.sql
	finishSQL string
	//go:embed statements/insert_records.sql
	insertRecordsSQL string
	//go:embed statements/stale.sql
	staleSQL string
	//go:embed statements/waiting.sql
	waitingSQL string
	//go:embed statements/sweep.sql
	sweepSQL string
	//go:embed statements/lag.sql
	lagSQL string
	//go:embed statements/status.sql
	statusSQL string
	//go:embed statements/count.sql
	countSQL string
	//go:embed statements/records.sql
	recordsSQL string
	//go:embed statements/committed.sql
	committedSQL string
	//go:embed statements/committed_since.sql
	committedSinceSQL string
	//go:embed statements/committed_lag.sql
	committedLagSQL string
	//go:embed statements/foreign.sql
	foreignSQL string
)

// statements are the statements that use the tables of one crawl.
type statements struct {
	lookUp, insertMissing, insertWaiting, raiseFloor, lockKeys, renew string
	queued, withdraw, finish, insertRecords                           string
	stale, waiting, sweep, lag, status, count, records                string
	committed, committedSince, committedLag, foreign                  string
}

var template = regexp.MustCompile(`\bcrawler\.(exact_key|exact_waiting|exact_pending|record)\b`)

// namedFor returns the statements for the tables of a crawl. The name of such a table is
// that of its template, followed by the crawl's number. It needs no quotes.
func namedFor(crawl int) statements {
	named := func(sql string) string { return template.ReplaceAllString(sql, "${0}_"+strconv.Itoa(crawl)) }
	return statements{
		lookUp: named(lookUpSQL), insertMissing: named(insertMissingSQL), insertWaiting: named(insertWaitingSQL),
		raiseFloor: named(raiseFloorSQL), lockKeys: named(lockKeysSQL), renew: named(renewSQL),
		queued: named(queuedSQL), withdraw: named(withdrawSQL), finish: named(finishSQL), insertRecords: named(insertRecordsSQL),
		stale: named(staleSQL), waiting: named(waitingSQL), sweep: named(sweepSQL), lag: named(lagSQL),
		status: named(statusSQL), count: named(countSQL), records: named(recordsSQL),
		committed: named(committedSQL), committedSince: named(committedSinceSQL), committedLag: named(committedLagSQL),
		foreign: named(foreignSQL),
	}
}
