package pgstore

import (
	_ "embed"
	"regexp"
	"strconv"
)

// Statements that name no table of a crawl.
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
)

// Statements on the tables of one crawl. Their files name the templates of these
// tables; see namedFor.
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
)

// statements are those on the tables of one crawl.
type statements struct {
	lookUp, insertMissing, insertWaiting, raiseFloor, lockKeys, renew string
	queued, withdraw, finish, insertRecords                           string
	stale, waiting, sweep, lag, status, count, records                string
}

var template = regexp.MustCompile(`\bcrawler\.(exact_key|exact_waiting|exact_pending|record)\b`)

// namedFor returns the statements on the tables of a crawl, whose names need no
// quotes: they are the templates' and the crawl's number.
func namedFor(crawl int) statements {
	named := func(sql string) string { return template.ReplaceAllString(sql, "${0}_"+strconv.Itoa(crawl)) }
	return statements{
		lookUp: named(lookUpSQL), insertMissing: named(insertMissingSQL), insertWaiting: named(insertWaitingSQL),
		raiseFloor: named(raiseFloorSQL), lockKeys: named(lockKeysSQL), renew: named(renewSQL),
		queued: named(queuedSQL), withdraw: named(withdrawSQL), finish: named(finishSQL), insertRecords: named(insertRecordsSQL),
		stale: named(staleSQL), waiting: named(waitingSQL), sweep: named(sweepSQL), lag: named(lagSQL),
		status: named(statusSQL), count: named(countSQL), records: named(recordsSQL),
	}
}
