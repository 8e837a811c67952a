package main

import "strings"

// A proof is one section of the document.
type proof struct {
	title, claim string
	batches      []batch
}

// batch is what one go test runs for a proof.
type batch struct {
	pkg   string
	tests string // what -run takes
	race  bool   // under the race detector
	fixed bool   // the tests have one size only, and no flag -proof
}

// args returns the arguments of the go command; more come after "test".
func (b batch) args(more ...string) []string {
	args := append([]string{"test"}, more...)
	if b.race {
		args = append(args, "-race")
	}
	args = append(args, "-count=1", "-timeout=0", "-run", b.tests, b.pkg)
	if !b.fixed {
		args = append(args, "-args", "-proof")
	}
	return args
}

// line returns the command for a shell.
func (b batch) line() string {
	args := b.args("-v")
	for i, arg := range args {
		if strings.ContainsAny(arg, "$|()*") {
			args[i] = "'" + arg + "'"
		}
	}
	return "go " + strings.Join(args, " ")
}

// proofs are all proofs, in the order of the document.
var proofs = []proof{
	{
		"1. A hard web, exactly",
		"The binary crawls 20,000 pages on 200 hosts with every hardship of the test web. Its records are exactly the expected ones, each URL once; the books balance, also against the records; and by the web's own log no two requests to one host started closer than promised (tolerance 25 ms or 10 %). Under a fake clock the same is judged exactly.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestExactSet$"}, {pkg: "./fetcher", tests: "^TestWeb"}},
	},
	{
		"2. Killed and resumed",
		"Such a crawl is killed 25 times with SIGKILL, at least once within each of: the commit of a batch, a checkpoint, the append of records, a rotation, a lease, a start; the rest at random requests. What each kill left is audited. The records are those of a crawl that never died, and no request is repeated but those that were in flight.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestKilled$"}},
	},
	{
		"3. Power loss and disk errors",
		"Store and records are on one simulated disk that loses what was not synced, or some of it, at random moments, again and again; or that fails at a random write. The crawl that goes on from what is left ends with the exact set.",
		[]batch{
			{pkg: "./bench/proofs", tests: "^(TestPowerLoss|TestDiskErrors)$"},
			{pkg: "./frontier/localstore", tests: "^(TestPowerLoss|TestDiskErrors|TestMarkerFS|TestModel)$"},
		},
	},
	{
		"4. Real HTML",
		"Documentation that people wrote: the set of pages that are answered 200 equals that of wget -r.",
		[]batch{{pkg: "./bench", tests: "^TestRealWeb$", fixed: true}},
	},
	{
		"5. The filter",
		"The false-positive rate is the one that was asked for, by at least 100/p probes and within 5σ on either side, also of a filter that grew; a filter with one hash too few is found out. Of 16 racers on one million keys, under the race detector, no key is lost and none is new twice.",
		[]batch{
			{pkg: "./bloomstore/membits", tests: "^TestFalsePositiveRate"},
			{pkg: "./bloomstore/bloomtest", tests: "^TestFPRTellsGoodFromBad$"},
			{pkg: "./bloomstore/membits", tests: "^TestConformance$/^growth=(off|on)$/^RacersGetAtMostOneTrue$", race: true},
		},
	},
	{
		"6. Bad input",
		"Each of these is answered by one clear message and its exit code; nothing is lost, and the crawl then ends with the exact set.",
		[]batch{{pkg: "./bench/proofs", tests: "^TestBadInput$", fixed: true}},
	},
}
