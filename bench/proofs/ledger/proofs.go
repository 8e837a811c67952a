package main

import "path"

// A proof has one line and one section in the document. Its title must not change,
// because ledger finds the outcomes of earlier runs by it.
type proof struct {
	title, size, claim string
	batches            []batch
}

// A batch is the part of a proof that one run of "go test" runs.
type batch struct {
	pkg    string
	tests  string // the expression for -run, or for -fuzz
	race   bool   // use the race detector
	fixed  bool   // the tests have only one size, and no flag -proof
	fuzz   bool   // tests matches one fuzz target, which runs for fuzzTime
	nested bool   // the package is a module of its own
}

// fuzzTime is the time for which each fuzz target of a proof runs.
const fuzzTime = "1m"

// args returns the arguments of the go command, with more after "test".
func (b batch) args(more ...string) []string {
	pkg, args := b.pkg, []string{"test"}
	if b.nested {
		pkg, args = ".", []string{"-C", path.Clean(b.pkg), "test"}
	}
	args = append(args, more...)
	if b.race {
		args = append(args, "-race")
	}
	if b.fuzz {
		return append(args, "-run", "^$", "-fuzz", b.tests, "-fuzztime", fuzzTime, pkg)
	}
	args = append(args, "-count=1", "-timeout=0", "-run", b.tests, pkg)
	if !b.fixed {
		args = append(args, "-args", "-proof")
	}
	return args
}

// proofs are all proofs, in the order of the document.
var proofs = []proof{
	{
		"1. A hard web, exactly",
		"20,000 pages, 200 hosts",
		"The binary crawls 20,000 pages on 200 hosts with every hardship of the test web. Its records are exactly the expected ones, each URL once; the books balance, also against the records; and by the web's own log no two requests to one host started closer than promised (tolerance 25 ms or 10 %). Under a fake clock the same is judged exactly.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestExactSet$"}, {pkg: "./fetcher", tests: "^TestWeb"}},
	},
	{
		"2. Killed and resumed",
		"the same, 25 kills",
		"Such a crawl is killed 25 times with SIGKILL, at least once within each of: the commit of a batch, a checkpoint, the append of records, a rotation, a lease, a start; the rest at random requests. What each kill left is audited. The records are those of a crawl that never died, and no request is repeated but those that were in flight.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestKilled$"}},
	},
	{
		"3. Power loss and disk errors",
		"800 crawls, 5,000 disk images",
		"Store and records are on one simulated disk that loses what was not synced, or some of it, at random moments, again and again; or that fails at a random write. The crawl that goes on from what is left ends with the exact set.",
		[]batch{
			{pkg: "./bench/proofs", tests: "^(TestPowerLoss|TestDiskErrors)$"},
			{pkg: "./frontier/localstore", tests: "^(TestPowerLoss|TestDiskErrors|TestMarkerFS|TestModel)$"},
		},
	},
	{
		"4. Real HTML",
		"975 pages",
		"Documentation that people wrote: the set of pages that are answered 200 equals that of wget -r, but for the pages that TestRealWeb lists, with the reason why wget does not find them.",
		[]batch{{pkg: "./bench", tests: "^TestRealWeb$", fixed: true}},
	},
	{
		"5. The filter",
		"150 million probes",
		"The false-positive rate is the one that was asked for, by at least 100/p probes and within 5σ on either side, also of a filter that grew; a filter with one hash too few is found out. Of 16 racers on one million keys, under the race detector, no key is lost and none is new twice.",
		[]batch{
			{pkg: "./bloomstore/membits", tests: "^TestFalsePositiveRate"},
			{pkg: "./bloomstore/bloomtest", tests: "^TestFPRTellsGoodFromBad$"},
			{pkg: "./bloomstore/membits", tests: "^TestConformance$/^growth=(off|on)$/^RacersGetAtMostOneTrue$", race: true},
		},
	},
	{
		"6. Bad input",
		"a table of faults",
		"Each of these is answered by one clear message and its exit code; nothing is lost, and the crawl then ends with the exact set.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestBadInput$", fixed: true}},
	},
	{
		"7. robots.txt",
		"a table, 1 min of fuzzing",
		"The rules of RFC 9309 and the edge cases that Google publishes, as a table; the status of an answer over time under a fake clock; and against Google's matcher (grobotstxt), by random files and by fuzzing, wherever both should agree: where not is in the comment of package robots.",
		[]batch{
			{pkg: "./internal/robots", tests: "^Test", fixed: true},
			{pkg: "./internal/robots", tests: "^FuzzAgreesWithGoogle$", fuzz: true},
			{pkg: "./fetcher", tests: "^TestRobots", fixed: true},
		},
	},
	{
		"8. Canonical URLs",
		"a table, 2 min of fuzzing",
		"A table of the cases of the WHATWG standard; any two spellings that the standard makes one are one; by fuzzing, the form of a form is itself, joining does not depend on how the base was spelled, and the fast path equals the slow one.",
		[]batch{
			{pkg: "./frontier/canon", tests: "^Test", fixed: true},
			{pkg: "./frontier/canon", tests: "^FuzzParse$", fuzz: true},
			{pkg: "./frontier/canon", tests: "^FuzzJoin$", fuzz: true},
		},
	},
	{
		"9. Hostile pages",
		"1,000 pages at once, 3 min of fuzzing",
		"1,000 pages at once that are made to be dear, with no more than 600 MB of memory and an end; links of deep, broken and wrongly labelled pages; sitemaps, answers and headers without end, bombs in all codings. The parsers of pages, sitemaps, headers and proxies by fuzzing.",
		[]batch{
			{pkg: "./internal/extract", tests: "^Test"},
			{pkg: "./internal/extract", tests: "^FuzzHTML$", fuzz: true},
			{pkg: "./fetcher/internal/sitemap", tests: "^Test"},
			{pkg: "./fetcher/internal/sitemap", tests: "^FuzzRead$", fuzz: true},
			{pkg: "./fetcher/get", tests: "^(TestBombs|TestOddCodings|TestHeaderFlood|TestEndlessBody|TestDripOnTheWire|TestLimitsInTime)$", fixed: true},
			{pkg: "./fetcher/get", tests: "^FuzzParseProxy$", fuzz: true},
			{pkg: "./fetcher", tests: "^TestMemory$", fixed: true},
		},
	},
	{
		"10. The guard",
		"all special ranges",
		"No address of the special ranges of the IANA registries is dialled, whatever its spelling: as a page, robots.txt, sitemap, redirect or through a proxy, nor when a name changes its address between two look-ups. And no other address is refused.",
		[]batch{
			{pkg: "./fetcher/get", tests: "^(TestGuard|TestAllowNet|TestSpellings|TestNamesOfSpecialAddresses|TestRedirectIntoTheHouse|TestRebinding|TestProxyGetsNoSpecialAddress|TestPrivateAddressIsNotDialled|TestEndsInNumber)", fixed: true},
			{pkg: "./fetcher", tests: "^(TestCornersOnTheWire|TestAddressIsFinal|TestHostileOrigins)$", fixed: true},
		},
	},
	{
		"11. Kept answers",
		"25 kills",
		"A crawl that keeps all answers is killed 25 times with SIGKILL, within a write, a rotation and a commit among others. Each answer that has a record is in the WARC files once, where the record says, as it was served; no other is. gowarc's strict validation accepts every record; warcio reads the same out of files with answers of every kind. The links that a crawl keeps are those of the pages that have records, each once, also where workers that share a crawl die.",
		[]batch{
			{pkg: "./bench/proofs", tests: "^TestArchiveKilled$"},
			{pkg: "./bench/proofs", tests: "^Test(Shared)?LinksKilled$"},
			{pkg: "./fetcher/warc", tests: "^Test", fixed: true},
			{pkg: "./bench/warccheck", tests: "^Test", nested: true},
		},
	},
	{
		"12. The whole test web",
		"20,000 pages",
		"The binary crawls 20,000 pages with every hardship, and the corners where robots.txt, sitemaps, bodies, headers, names and addresses are hostile. What does not depend on the order is exact, the rest is right by number and reason; the refusals too. No host is asked too early, no forbidden address is dialled, the audit balances.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestWholeWeb$"}, {pkg: "./fetcher", tests: "^TestCorners", fixed: true}},
	},
	{
		"13. The filter in Redis",
		"100/p probes, a cluster",
		"The suite of all filters on a server, on a cluster and from two processes. The false-positive rate is the one that was asked for, by at least 100/p probes and within 5σ, for even hosts and for those of Zipf's law, also of a filter that grew eightfold. Memory is what the calculator says. A filter of which anything is evicted, flushed, cut or replaced is an error, never an empty one.",
		[]batch{
			{pkg: "./internal/redisbits", tests: "^(TestConformance|TestCluster|TestLostReply|TestGrowthIsExact)$"},
			{pkg: "./internal/redisbits", tests: "^(TestFalsePositiveRate|TestRateOfLayers|TestMemory|TestBeyond32Bits)$"},
			{pkg: "./internal/redisbits", tests: "^(TestLost|TestReplacedSegment|TestOtherParameters|TestEviction|TestOutOfMemory)"},
		},
	},
	{
		"14. The frontier in Redis",
		"a server and a cluster",
		"The suite of all frontiers and its model run on a server and on a cluster of three primaries; each command of each script is made to fail once, and the reply to each script is lost once: nothing is half done. Workers that race to add the same URLs, some of them killed while they do: each URL is queued once, and no bit is set without an entry.",
		[]batch{
			{pkg: "./frontier/redisstore", tests: "^(TestSuite|TestModel|TestScriptFaults|TestAddFaults|TestLostReplies|TestAddAfterLostReply)"},
			{pkg: "./frontier/redisstore", tests: "^(TestAddersRace|TestKilledAdders|TestMaxPagesAcrossWorkers|TestEmptyIsNeverEarly)"},
		},
	},
	{
		"15. Redis loses, moves and fails over",
		"up to 25,000 pages",
		"The server is killed and its log cut at a random byte of the last two seconds; a primary fails over to a replica; a slot moves under load; memory runs out; the filter is lost and made anew. The books balance, what rolled back is found again, no host is asked too early, stale leases are refused, and what could not be kept is named.",
		[]batch{
			{pkg: "./frontier/redisstore", tests: "^(TestServerLosesItsLastMoments|TestNodeLosesItsLastMoments|TestFailoverWithWait|TestFailoverNamesWhatIsLost)$"},
			{pkg: "./frontier/redisstore", tests: "^(TestSlotsMoveUnderLoad|TestFullServerDrains|TestEpoch|TestRebuild|TestHalfTransactions)"},
		},
	},
	{
		"16. Many workers",
		"20,000 pages, 4 workers",
		"Four worker processes share the crawl of 20,000 pages on 200 hosts; every two seconds one is killed with SIGKILL and replaced, also between a record and its completion. The export of all their directories is the exact set, each record once; no host is asked too early; the audit balances. The same with a node that is killed and restarted, and with a primary that fails over: exact with --redis-wait 1; with 0 the audit names what is missing.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestShared"}},
	},
	{
		"17. Exact keys in Postgres",
		"20,000 pages, 20 kills each",
		"The suite of all exact sets on Postgres, and a store beside one in memory that dies at each of its crash points. Then whole processes, with all URLs exact, and the records in files and in Postgres: workers killed at any moment and at each crash point, Postgres killed, a worker frozen for longer than its leases last, Redis emptied, 20 times and more each; the records are the exact set, each key has one record in a round, the books of both stores balance, no host is asked too early. Beside a filter that is made for a sixth of the URLs all are found, and it loses as many bulk URLs as its fill says. A window of seconds holds. Four reconcilers and eight relays race eight workers. While Postgres is away for a minute bulk pages come at 0.9 of the rate before or more. What a hundredth of exact URLs costs is measured.",
		[]batch{
			{pkg: "./internal/pgstore", tests: "^Test"},
			{pkg: "./internal/exact", tests: "^Test"},
			{pkg: "./bench/proofs", tests: "^TestPostgres"},
		},
	},
	{
		"18. Thousands of late hosts at once",
		"5,000 hosts",
		"A crawl of 5,000 hosts that answer after 300 ms on average (log-normal) asks 4,000 of them at once, within 512 MiB beside its filter, and is killed four times. Its records are exactly the expected ones, the books balance, no request starts before its host's delay is over, and the last run takes at most --memory and a tenth; the kernel, told so by a control group, would kill what takes more.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestBroad$"}},
	},
	{
		"19. A machine that falls short",
		"10,000 hosts",
		"A crawl of 10,000 hosts goes on while its name server answers late or refuses to answer for 30 s, and while it may open no more than 160 files; one of 5,000 hosts while its machine has 200 ports. Another looks each host up in 100 ms. Every page is fetched, and the reports of all but the last name what they lacked.",
		[]batch{{pkg: "./bench/proofs", tests: "^Test(NamesShort|DescriptorsShort|PortsShort|LateNames)$"}},
	},
	{
		"20. Data of pages",
		"20,000 products",
		"A made-up shop of 20,000 products in ten templates is crawled: classes, tables, JSON-LD, Open Graph, microdata, attributes, lists, old HTML; broken tags, wrong charsets, values that are missing. Each field of each record is exact, byte for byte, and each page without a required one says so. What a page can make of a field is bounded. Of documentation that people wrote the main text has at least 93 of 100 words, and 97 of 100 belong to it.",
		[]batch{
			{pkg: "./bench/pagedata", tests: "^Test"},
			{pkg: "./fetcher/fields", tests: "^Test", fixed: true},
			{pkg: "./fetcher/fields", tests: "^FuzzForms$", fuzz: true},
			{pkg: "./fetcher/fields", tests: "^FuzzCheck$", fuzz: true},
			{pkg: "./internal/maintext", tests: "^Test", fixed: true},
			{pkg: "./fetcher", tests: "^TestData", fixed: true},
		},
	},
	{
		"21. Events",
		"20,000 pages, 300 kills of each relay",
		"A crawl, workers on Redis, and workers with records in Postgres are killed while relays deliver their events to a server that is away, resets, refuses or does not answer. Relays are killed at any moment and at each of their steps: publish, acknowledgement, cursor. The ids that were delivered are those of the records, none is missing, those of a host come in order, and what was refused for good is a dead letter.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestRelay"}},
	},
	{
		"22. The inbox",
		"10,000,000 marks, 1,000,000 events",
		"Once and Work run a handler once per event, however it is delivered: in a row, at once, after restarts, with a handler that fails, panics, hangs or kills its process, with the cache flushed or killed at each step. Each classic fault is a naive version that the same test sees fail. Random calls agree with a model. A sweep of ten million expired marks at most doubles the 99th percentile of Once; Work takes no more memory for a million pending events. Records go from a crawl's files over JetStream and an inbox into a table while relay, broker, consumer and Postgres are killed 1,000 times, and from OnPage while the crawl is: the table has each once.",
		[]batch{
			{pkg: "./events/inbox", tests: "^Test"},
			{pkg: "./events/inbox/redisonly", tests: "^Test", fixed: true},
			{pkg: "./events/inbox/webhook", tests: "^Test", fixed: true},
			{pkg: "./events/inbox/nats", tests: "^Test", fixed: true},
			{pkg: "./events/inbox/kafka", tests: "^Test", fixed: true},
			{pkg: "./bench/proofs", tests: "^Test(InboxKilled|OnPageKilled)$"},
		},
	},
}
