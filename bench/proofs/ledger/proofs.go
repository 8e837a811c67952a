package main

import "path"

// A proof is a group of tests. It has one line and one section in docs/proofs.md. Its title must
// not change, because ledger uses the title to find the outcomes of earlier runs.
type proof struct {
	title, size, claim string
	batches            []batch
}

// A batch is the part of a proof that one run of "go test" runs.
type batch struct {
	pkg    string
	tests  string // the expression for -run, or for -fuzz
	race   bool   // use the race detector
	fixed  bool   // the tests have only one size, and do not have the flag -proof
	fuzz   bool   // the field tests matches one fuzz target, which is run for fuzzTime
	nested bool   // the package is a separate module
}

// fuzzTime is the time for which each fuzz target of a proof runs.
const fuzzTime = "1m"

// args returns the arguments of the go command. The given flags come directly after
// "test".
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
		"The binary crawls 20,000 pages on 200 hosts with every hardship of the test web. Its records are exactly the expected ones, each URL once. The books balance, also compared with the records. In the log of the web, no two requests to one host started closer together than promised (tolerance 25 ms or 10 %). With a fake clock the same is checked exactly.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestExactSet$"}, {pkg: "./fetcher", tests: "^TestWeb"}},
	},
	{
		"2. Killed and resumed",
		"the same, 25 kills",
		"The crawl of proof 1 is killed 25 times with SIGKILL. At least one kill hits each of these steps: the commit of a batch, a checkpoint, the append of records, a rotation, a lease, and a start. The other kills come at random requests. The state after each kill is audited. The records are those of a crawl that was never killed. No request is repeated, except those that were in flight at a kill.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestKilled$"}},
	},
	{
		"3. Power loss and disk errors",
		"800 crawls, 5,000 disk images",
		"The store and the records are on one simulated disk. At random moments, again and again, the disk loses some or all data that was not synced; or it fails at a random write. The crawl is resumed from what is left, and ends with exactly the expected records.",
		[]batch{
			{pkg: "./bench/proofs", tests: "^(TestPowerLoss|TestDiskErrors)$"},
			{pkg: "./frontier/localstore", tests: "^(TestPowerLoss|TestDiskErrors|TestMarkerFS|TestModel)$"},
		},
	},
	{
		"4. Real HTML",
		"975 pages",
		"The pages are the documentation of two real projects. The set of pages that are answered with 200 equals that of wget -r, except for the pages that TestRealWeb lists, with the reason why wget does not find them.",
		[]batch{{pkg: "./bench", tests: "^TestRealWeb$", fixed: true}},
	},
	{
		"5. The filter",
		"150 million probes",
		"The measured false-positive rate is the requested one: in at least 100/p probes it is within 5σ on either side, also for a filter that grew. The test notices a filter with one hash too few. When 16 goroutines race to add one million keys, under the race detector, no key is lost and none is new twice.",
		[]batch{
			{pkg: "./bloomstore/membits", tests: "^TestFalsePositiveRate"},
			{pkg: "./bloomstore/bloomtest", tests: "^TestFPRTellsGoodFromBad$"},
			{pkg: "./bloomstore/membits", tests: "^TestConformance$/^growth=(off|on)$/^RacersGetAtMostOneTrue$", race: true},
		},
	},
	{
		"6. Bad input",
		"a table of faults",
		"Each fault in a table of bad input leads to one clear message and its exit code. Nothing is lost, and the crawl then ends with exactly the expected records.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestBadInput$", fixed: true}},
	},
	{
		"7. robots.txt",
		"a table, 1 min of fuzzing",
		"The rules of RFC 9309 and the edge cases that Google publishes are tested as a table. How long an answer applies, and when robots.txt is requested again, is tested with a fake clock. Random files and fuzzing compare the answers with those of Google's matcher (grobotstxt). The comment of package robots lists the cases where the two should differ.",
		[]batch{
			{pkg: "./internal/robots", tests: "^Test", fixed: true},
			{pkg: "./internal/robots", tests: "^FuzzAgreesWithGoogle$", fuzz: true},
			{pkg: "./fetcher", tests: "^TestRobots", fixed: true},
		},
	},
	{
		"8. Canonical URLs",
		"a table, 2 min of fuzzing",
		"A table has the cases of the WHATWG standard. Any two spellings that are one URL according to the standard have one canonical form. Fuzzing checks that the canonical form of a canonical form is the same, that the result of a join does not depend on the spelling of the base, and that the fast path equals the slow one.",
		[]batch{
			{pkg: "./frontier/canon", tests: "^Test", fixed: true},
			{pkg: "./frontier/canon", tests: "^FuzzParse$", fuzz: true},
			{pkg: "./frontier/canon", tests: "^FuzzJoin$", fuzz: true},
		},
	},
	{
		"9. Hostile pages",
		"1,000 pages at once, 3 min of fuzzing",
		"1,000 pages that are made to cost much time and memory are parsed at once. The parsing ends, and takes at most 600 MB of memory. Other tests read the links of deep, broken and wrongly labelled pages. Others read sitemaps, answers and headers that never end, and compression bombs in all codings. The parsers of pages, sitemaps, headers and proxies are fuzzed.",
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
		"No address in the special ranges of the IANA registries is dialled, in whatever way it is spelled. This holds for pages, robots.txt, sitemaps and redirects, through a proxy, and for a name that changes its address between two look-ups. No other address is refused.",
		[]batch{
			{pkg: "./fetcher/get", tests: "^(TestGuard|TestAllowNet|TestSpellings|TestNamesOfSpecialAddresses|TestRedirectIntoTheHouse|TestRebinding|TestProxyGetsNoSpecialAddress|TestPrivateAddressIsNotDialled|TestEndsInNumber)", fixed: true},
			{pkg: "./fetcher", tests: "^(TestCornersOnTheWire|TestAddressIsFinal|TestHostileOrigins)$", fixed: true},
		},
	},
	{
		"11. Kept answers",
		"25 kills",
		"A crawl that keeps all answers is killed 25 times with SIGKILL, among others during a write, a rotation and a commit. Each answer that has a record is in the WARC files once, at the place that the record names, as it was served. The files contain no other answers. gowarc's strict validation accepts every record. warcio reads the same data from files with answers of every kind. A crawl keeps the links of exactly the pages that have records, each link of a page once. This also holds if workers of a shared crawl die.",
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
		"The binary crawls 20,000 pages with every hardship, and the corners of the test web, where robots.txt, sitemaps, bodies, headers, names and addresses are hostile. Results that do not depend on the order of requests are exact. For the other results, and for the refusals, the numbers and reasons are correct. No host is asked too early, no forbidden address is dialled, and the audit balances.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestWholeWeb$"}, {pkg: "./fetcher", tests: "^TestCorners", fixed: true}},
	},
	{
		"13. The filter in Redis",
		"100/p probes, a cluster",
		"The tests of all filters run on a server, on a cluster and from two processes. The measured false-positive rate is the requested one: in at least 100/p probes it is within 5σ, both for hosts of equal size and for hosts whose sizes follow Zipf's law, also for a filter that grew eightfold. The memory is what the calculator says. If any part of a filter is evicted, flushed, cut or replaced, the result is an error, never an empty filter.",
		[]batch{
			{pkg: "./internal/redisbits", tests: "^(TestConformance|TestCluster|TestLostReply|TestGrowthIsExact)$"},
			{pkg: "./internal/redisbits", tests: "^(TestFalsePositiveRate|TestRateOfLayers|TestMemory|TestBeyond32Bits)$"},
			{pkg: "./internal/redisbits", tests: "^(TestLost|TestReplacedSegment|TestOtherParameters|TestEviction|TestOutOfMemory)"},
		},
	},
	{
		"14. The frontier in Redis",
		"a server and a cluster",
		"The tests of all frontiers, and the comparison with their model, run on a server and on a cluster of three primaries. Each command of each script is made to fail once, and the reply to each script is lost once: no change is half done. Workers race to add the same URLs, and some of them are killed meanwhile: each URL is queued once, and no bit of the filter is set unless the URL is queued too.",
		[]batch{
			{pkg: "./frontier/redisstore", tests: "^(TestSuite|TestModel|TestScriptFaults|TestAddFaults|TestLostReplies|TestAddAfterLostReply)"},
			{pkg: "./frontier/redisstore", tests: "^(TestAddersRace|TestKilledAdders|TestMaxPagesAcrossWorkers|TestEmptyIsNeverEarly)"},
		},
	},
	{
		"15. Redis loses, moves and fails over",
		"up to 25,000 pages",
		"The server is killed, and its log is cut at a random byte of the last two seconds. A primary fails over to a replica. A slot moves under load. Memory runs out. The filter is lost and rebuilt. In each case the books balance, URLs that were rolled back are found again, no host is asked too early, and stale leases are refused. Losses that cannot be avoided are reported.",
		[]batch{
			{pkg: "./frontier/redisstore", tests: "^(TestServerLosesItsLastMoments|TestNodeLosesItsLastMoments|TestFailoverWithWait|TestFailoverNamesWhatIsLost)$"},
			{pkg: "./frontier/redisstore", tests: "^(TestSlotsMoveUnderLoad|TestFullServerDrains|TestEpoch|TestRebuild|TestHalfTransactions)"},
		},
	},
	{
		"16. Many workers",
		"20,000 pages, 4 workers",
		"Four worker processes share the crawl of 20,000 pages on 200 hosts. Every two seconds one of them is killed with SIGKILL and replaced, also between a record and its completion. The export of all their directories has exactly the expected records, each once; no host is asked too early; the audit balances. The same is tested with a node that is killed and restarted, and with a primary that fails over. The result is exact with --redis-wait 1. With 0 the audit names what is missing.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestShared"}},
	},
	{
		"17. Exact keys in Postgres",
		"20,000 pages, 20 kills each",
		"The tests of all exact sets run on Postgres. A store that dies at each of its crash points is compared with one in memory. Then whole processes are tested, with all URLs exact, and with the records in files and in Postgres. Workers are killed at any moment and at each crash point, Postgres is killed, a worker is frozen for longer than its leases last, and Redis is emptied, 20 times or more each. The records are exactly the expected ones, each key has one record in a round, the books of both stores balance, and no host is asked too early. If the filter is sized for a sixth of the URLs, all exact URLs are found, and as many bulk URLs are lost as its fill predicts. An exact URL with a window of some seconds is fetched again only after its window. Four reconcilers and eight relays race eight workers. While Postgres is away for a minute, bulk pages are fetched at no less than 0.9 of the earlier rate. A test measures how much slower a crawl is if one URL in a hundred is exact.",
		[]batch{
			{pkg: "./internal/pgstore", tests: "^Test"},
			{pkg: "./internal/exact", tests: "^Test"},
			{pkg: "./bench/proofs", tests: "^TestPostgres"},
		},
	},
	{
		"18. Thousands of late hosts at once",
		"5,000 hosts",
		"A crawl of 5,000 hosts sends requests to up to 4,000 of them at once. The hosts answer after 300 ms on average (log-normal). The crawl may use 512 MiB in addition to its filter (--memory 512MiB), and is killed four times. Its records are exactly the expected ones, the books balance, and no request starts before its host's delay is over. The last run takes at most a tenth more memory than --memory. If the test may create a control group, the kernel kills a run that takes more.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestBroad$"}},
	},
	{
		"19. A machine that falls short",
		"10,000 hosts",
		"A crawl of 10,000 hosts continues while its name server answers late or refuses to answer for 30 s, and while it may open no more than 160 files. A crawl of 5,000 hosts continues while its machine has 200 ports. In another crawl the look-up of each host takes 100 ms. Every page is fetched, and each report, except that of the last crawl, names the resource that was short.",
		[]batch{{pkg: "./bench/proofs", tests: "^Test(NamesShort|DescriptorsShort|PortsShort|LateNames)$"}},
	},
	{
		"20. Data of pages",
		"20,000 products",
		"A synthetic shop of 20,000 products in ten templates is crawled. The templates have classes, tables, JSON-LD, Open Graph, microdata, attributes, lists and old HTML, with broken tags, wrong charsets and missing values. Each field of each record is exact, byte for byte, and the record of each page without a required field says so. A page cannot make a field larger than its limit. In real documentation, the text that the crawler extracts has at least 93 % of the words of the true main text, and at least 97 % of the extracted words belong to it.",
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
		"A crawl, workers on Redis, and workers with records in Postgres are killed while relays deliver their events to a server that is away, resets connections, refuses events or does not answer. Relays are killed at any moment and at each of their steps: publish, acknowledgement, cursor. The ids that were delivered are those of the records, and none is missing. The events of a host come in order. Each event that was refused for ever is a dead letter.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestRelay"}},
	},
	{
		"22. The inbox",
		"10,000,000 marks, 1,000,000 events",
		"The functions `Once` and `Work` of the inbox run a handler one time for each event, however the event is delivered: several times in a row or at the same time, after restarts, with a handler that fails, panics, hangs or kills its process, and with the cache flushed or killed at each step. For each classic fault there is a naive version, which fails in the same test. Random calls agree with a model. A sweep of ten million expired marks at most doubles the 99th percentile of `Once`. `Work` takes hardly more memory for a million pending events than for a few hundred. Records go from a crawl's files through JetStream and an inbox into a table while relay, broker, consumer and Postgres are killed 1,000 times. They also go there from OnPage while the crawl is killed. The table has each record once.",
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
