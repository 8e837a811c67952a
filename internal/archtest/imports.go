package archtest

import (
	"slices"
	"strings"
)

var (
	// judges are the packages that tests of every floor may import. They import no other
	// package of ours. So they do not share the bugs of the tested code, and even tests of
	// the lowest floor can use them.
	judges = []string{"internal/testweb", "internal/testkit"}

	// leaves are the packages below internal that every floor may import. They import
	// no other package of ours.
	leaves = []string{"internal/address", "internal/crash", "internal/durable", "internal/groupcommit", "internal/human", "internal/name", "internal/recent", "internal/stage", "internal/suite", "internal/topk"}

	// engines are the packages that each use one backend, such as Redis or Postgres.
	engines = []string{"frontier/localstore", "frontier/redisstore", "internal/pgstore"}
)

// public are the packages that other programs may import. Changes must not break these
// programs. A package that only our own packages import is in an internal folder, which is in
// the lowest folder that contains all importers.
var public = []string{
	"bloomstore", "bloomstore/bloomtest", "bloomstore/countbits", "bloomstore/membits", "bloomstore/redisbits",
	"crawl", "crawl/changes", "crawl/crawltest", "crawl/control", "crawl/links", "crawl/metrics", "crawl/report", "crawl/seeds", "crawl/settings", "crawl/table",
	"events", "events/eventstest", "events/files", "events/filter", "events/jsonl", "events/kafka", "events/nats", "events/signature",
	"events/sinks", "events/sqs", "events/webhook",
	"events/inbox", "events/inbox/kafka", "events/inbox/nats", "events/inbox/rediscache", "events/inbox/redisonly", "events/inbox/sqs", "events/inbox/webhook",
	"fetcher", "fetcher/botauth", "fetcher/cookies", "fetcher/fields", "fetcher/get", "fetcher/record", "fetcher/warc",
	"frontier", "frontier/canon", "frontier/frontiertest", "frontier/localstore", "frontier/policy", "frontier/politeness", "frontier/redisstore", "frontier/revisit",
	"serve", "serve/dashboard", "serve/idempotency", "serve/idempotency/embedded", "serve/idempotency/idempotencytest", "serve/idempotency/postgres",
	"sizing",
}

// checkPublic refuses packages on a floor that are neither public nor internal. The
// rule does not apply to bench and cmd.
func checkPublic(src source) []string {
	_, floored := floor[src.top]
	hidden := slices.Contains(strings.Split(src.pkg, "/"), "internal")
	if !floored || hidden || src.top == "bench" || src.top == "cmd" || slices.Contains(public, src.pkg) {
		return nil
	}
	return []string{fault(src.path, "package %s is not public: move it below internal, or let archtest list it", src.pkg)}
}

// imported is one import of a file.
type imported struct {
	path string // as written: "net/http"
	name string // the name that the file uses for it
	ours string // the path below our module: "frontier/canon"; empty for packages of other modules
}

func imports(src source) []imported {
	var all []imported
	for _, spec := range src.syntax.Imports {
		imp := imported{path: strings.Trim(spec.Path.Value, "`\"")}
		imp.name = imp.path[strings.LastIndex(imp.path, "/")+1:]
		if spec.Name != nil {
			imp.name = spec.Name.Name
		}
		if imp.path == module {
			imp.ours = "."
		}
		if below, ok := strings.CutPrefix(imp.path, module+"/"); ok {
			imp.ours = below
		}
		all = append(all, imp)
	}
	return all
}

// inFolder reports whether pkg is the folder room or is below it.
func inFolder(pkg, room string) bool {
	return pkg == room || strings.HasPrefix(pkg, room+"/")
}

// inAnyFolder reports whether pkg is one of rooms or below one.
func inAnyFolder(pkg string, rooms []string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool { return inFolder(pkg, room) })
}

// checkDirection refuses imports of our packages that the function direction does not allow.
func checkDirection(src source) []string {
	var faults []string
	for _, imp := range imports(src) {
		if imp.ours == "" {
			continue
		}
		if why := direction(src, imp.ours); why != "" {
			faults = append(faults, fault(src.path, "imports %s: %s", imp.ours, why))
		}
	}
	return faults
}

// direction returns why src must not import a package of ours. The argument target is the
// path of this package below the module. If the import is allowed, direction returns "".
// Code can import from lower floors, from its own folder and from leaves. Tests can also
// import from judges.
func direction(src source, target string) string {
	top := topOf(target)
	_, floored := floor[src.top]
	switch {
	case src.test && target == src.pkg: // the external test of a package
		return ""
	case inAnyFolder(src.pkg, judges) && !sameJudge(src.pkg, target):
		return "a judge (see judges in archtest) imports nothing of ours"
	case src.top == "internal":
		return "packages below internal are leaves, unless archtest gives them a floor"
	case top == "internal" && !inAnyFolder(target, leaves):
		return "it is not in the list of leaves, which every floor may import"
	case target == "internal/suite" && !src.test && !strings.HasSuffix(src.pkg, "test"):
		return "it is for suites and tests"
	case top == src.top, top == "internal", src.test && inAnyFolder(target, judges):
		return ""
	case !floored:
		return "only the floors may import our packages"
	case floor[top] >= floor[src.top]:
		return src.top + " must not know " + top
	}
	return ""
}

// sameJudge reports whether both packages belong to one judge.
func sameJudge(a, b string) bool {
	return slices.ContainsFunc(judges, func(judge string) bool { return inFolder(a, judge) && inFolder(b, judge) })
}

// checkRooms refuses imports between packages that must not depend on each other, even if the
// function direction allows the import. A contract is a package of interfaces. A rule for a
// contract does not apply to the tests of the contract, because their examples use an
// implementation.
func checkRooms(src source) []string {
	contract := func(pkg string) bool { return src.pkg == pkg && !src.test }
	below := func(rooms ...string) bool { return inAnyFolder(src.pkg, rooms) }
	codeBelow := func(room string) bool { return inFolder(src.pkg, room) && !src.test }
	otherEngines := slices.DeleteFunc(slices.Clone(engines), func(engine string) bool { return inFolder(src.pkg, engine) })
	redisFilters := []string{"bloomstore/redisbits", "internal/redisbits"}
	memoryFilters := []string{"bloomstore/countbits", "bloomstore/membits"}
	rules := []struct {
		applies bool // whether the rule applies to src
		banned  []string
		why     string
	}{
		{contract("frontier"), engines, "the contract knows no engine"},
		{contract("bloomstore"), []string{"bloomstore"}, "the contract knows no backend"},
		{contract("events"), []string{"events"}, "the contract does not know the packages below it"},
		{below(engines...), otherEngines, "engines do not know each other"},
		{below("frontier/frontiertest"), engines, "the suite imports no backend"},
		{below("frontier/canon", "frontier/politeness", "frontier/revisit"), engines, "policy knows no engine"},
		{codeBelow("internal/exact"), append([]string{"github.com/jackc", "github.com/redis"}, engines...), "policy knows no engine and no driver"},
		{below(memoryFilters...), redisFilters, "backends do not know each other"},
		{below(redisFilters...), memoryFilters, "backends do not know each other"},
		{contract("serve/idempotency"), []string{"serve/idempotency", "github.com/jackc", "github.com/cockroachdb"}, "the contract knows no store"},
		{codeBelow("serve/idempotency/idempotencytest"), []string{"serve/idempotency/embedded", "serve/idempotency/postgres"}, "the suite imports no backend"},
		{codeBelow("bloomstore/bloomtest"), append(memoryFilters, redisFilters...), "the suite imports no backend"},
	}
	var faults []string
	for _, imp := range imports(src) {
		alone := imp.ours == "" || inFolder(imp.ours, "events/inbox") || imp.ours == "events/signature" || src.test && inAnyFolder(imp.ours, judges)
		if below("events/inbox") && !alone {
			faults = append(faults, fault(src.path, "imports %s: the inbox is used without a crawler", imp.ours))
		}
		alone = imp.ours == "" || inFolder(imp.ours, "serve/idempotency") || inAnyFolder(imp.ours, leaves) || src.test && inAnyFolder(imp.ours, judges)
		if below("serve/idempotency") && !alone {
			faults = append(faults, fault(src.path, "imports %s: idempotency is used without a crawler", imp.ours))
		}
		for _, rule := range rules {
			if rule.applies && (inAnyFolder(imp.ours, rule.banned) || inAnyFolder(imp.path, rule.banned)) {
				faults = append(faults, fault(src.path, "imports %s: %s", imp.path, rule.why))
			}
		}
	}
	return faults
}
