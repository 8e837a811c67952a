package archtest

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestTreeKeepsRules checks this repository.
func TestTreeKeepsRules(t *testing.T) {
	tree := os.DirFS("../..")
	if _, err := os.Stat("../../go.mod"); err != nil {
		t.Fatal(err)
	}
	faults, err := Check(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

// TestEachRule checks each rule with a tree that breaks the rule, and with a similar tree
// that does not.
func TestEachRule(t *testing.T) {
	const luaHeader = "-- add.lua: add a key.\n-- KEYS  one\n-- returns  1\n-- cost  O(1)\n"
	for name, test := range map[string]struct {
		path, text string
		want       string // part of the first fault; empty if there is no fault
	}{
		"floor down":                {"fetcher/a.go", `package fetcher; import "` + module + `/frontier/canon"`, ""},
		"floor up":                  {"frontier/a.go", `package frontier; import "` + module + `/fetcher"`, "frontier must not know fetcher"},
		"floor up, deep":            {"sizing/plot/a.go", `package plot; import "` + module + `/bloomstore"`, "sizing must not know bloomstore"},
		"floor up in a test":        {"sizing/a_test.go", `package sizing; import "` + module + `/bloomstore"`, "sizing must not know bloomstore"},
		"same folder":               {"fetcher/a.go", `package fetcher; import "` + module + `/fetcher/get"`, ""},
		"inbox and a package below": {"events/inbox/redisonly/a.go", `package redisonly; import "` + module + `/events/inbox"`, ""},
		"inbox and a leaf":          {"events/inbox/a_test.go", `package inbox; import "` + module + `/internal/suite"`, "without a crawler"},
		"inbox's tests":             {"events/inbox/a_test.go", `package inbox; import "` + module + `/internal/testkit/servers"`, ""},
		"judge in a test":           {"bloomstore/a_test.go", `package bloomstore; import "` + module + `/internal/testweb"`, ""},
		"judge in code":             {"bloomstore/a.go", `package bloomstore; import "` + module + `/internal/testweb"`, "bloomstore must not know cmd"},
		"servers in the program":    {"cmd/crawler/a.go", `package main; import "` + module + `/internal/testkit/servers"`, "cmd must not know bench"},
		"a template":                {"cmd/crawler/a.go", `package main; import "text/template"`, "grows by a third"},
		"a template of cobra":       {"cmd/crawler/a.go", `package main; func init() { root.SetUsageTemplate("x") }`, "grows by a third"},
		"bench in the program":      {"cmd/crawler/a.go", `package main; import "` + module + `/bench/contest"`, "cmd must not know bench"},
		"other bench in a test":     {"bloomstore/a_test.go", `package bloomstore; import "` + module + `/bench/site"`, "bloomstore must not know bench"},
		"judge and a floor":         {"internal/testweb/a.go", `package testweb; import "` + module + `/frontier"`, "imports nothing of ours"},
		"judge's test and a floor":  {"internal/testweb/a_test.go", `package testweb; import "` + module + `/frontier/canon"`, "imports nothing of ours"},
		"judge and its own package": {"internal/testweb/a.go", `package testweb; import "` + module + `/internal/testweb/words"`, ""},
		"judge's external test":     {"internal/testweb/a_test.go", `package testweb_test; import "` + module + `/internal/testweb"`, ""},
		"internal is no floor":      {"fetcher/a.go", `package fetcher; import "` + module + `/internal/archtest"`, "not in the list of leaves"},
		"a leaf":                    {"fetcher/a.go", `package fetcher; import "` + module + `/internal/topk"`, ""},
		"suite's kit":               {"frontier/frontiertest/a.go", `package frontiertest; import "` + module + `/internal/suite"`, ""},
		"suite's kit in code":       {"frontier/a.go", `package frontier; import "` + module + `/internal/suite"`, "for suites and tests"},
		"internal is a leaf":        {"internal/x/a.go", `package x; import "` + module + `/frontier"`, "are leaves"},
		"a new public package":      {"fetcher/unlisted/a.go", `package unlisted`, "is not public"},
		"a new internal package":    {"fetcher/internal/cookies/a.go", `package cookies`, ""},
		"a package of bench":        {"bench/cookies/a.go", `package cookies`, ""},
		"internal with a floor":     {"internal/exact/a.go", `package exact; import "` + module + `/frontier"`, ""},
		"suite of internal package": {"internal/exact/exacttest/a.go", `package exacttest; import "` + module + `/internal/suite"`, ""},
		"internal's floor up":       {"internal/exact/a.go", `package exact; import "` + module + `/fetcher"`, "frontier must not know fetcher"},
		"floor up to internal":      {"bloomstore/a.go", `package bloomstore; import "` + module + `/internal/exact"`, "bloomstore must not know frontier"},
		"leaf up to internal":       {"internal/topk/a.go", `package topk; import "` + module + `/internal/exact"`, "are leaves"},
		"internal is a library":     {"internal/exact/a.go", `package exact; func init() {}`, "has an init"},
		"cmd's internal":            {"cmd/crawler/main.go", `package main; import "` + module + `/cmd/crawler/internal/cli"`, ""},
		"tools import nothing":      {"tools/a.go", `package tools; import "` + module + `/frontier"`, "only the floors"},
		"root imports nothing":      {"a.go", `package crawler; import "` + module + `/frontier"`, "only the floors"},
		"unknown folder":            {"pkg/a.go", `package pkg`, "unknown top folder"},
		"folder of output":          {"go.dev.crawl/a.go", `not Go`, ""},
		"contract and engine":       {"frontier/a.go", `package frontier; import "` + module + `/frontier/localstore"`, "contract knows no engine"},
		"contract's example":        {"frontier/a_test.go", `package frontier_test; import "` + module + `/frontier/localstore"`, ""},
		"filter contract":           {"bloomstore/a.go", `package bloomstore; import "` + module + `/bloomstore/membits"`, "contract knows no backend"},
		"engines apart":             {"internal/pgstore/a.go", `package pgstore; import "` + module + `/frontier/redisstore/x"`, "engines do not know each other"},
		"backends apart":            {"bloomstore/membits/a.go", `package membits; import "` + module + `/bloomstore/redisbits"`, "backends do not know"},
		"suite and backend":         {"frontier/frontiertest/a.go", `package frontiertest; import "` + module + `/frontier/localstore"`, "suite imports no backend"},
		"policy and engine":         {"frontier/canon/a.go", `package canon; import "` + module + `/frontier/localstore"`, "policy knows no engine"},
		"policy and driver":         {"internal/exact/a.go", `package exact; import "github.com/jackc/pgx/v5"`, "no driver"},
		"contract and its packages": {"events/a.go", `package events; import "` + module + `/events/nats"`, "contract does not know the packages below it"},
		"inbox alone":               {"events/inbox/a.go", `package inbox; import "` + module + `/events"`, "without a crawler"},
		"inbox and signature":       {"events/inbox/a.go", `package inbox; import "` + module + `/events/signature"`, ""},
		"cmd and serve":             {"cmd/crawler/a.go", `package main; import "` + module + `/serve/idempotency"`, ""},
		"crawl and serve":           {"crawl/a.go", `package crawl; import "` + module + `/serve/idempotency"`, "crawl must not know serve"},
		"idempotency alone":         {"serve/idempotency/a.go", `package idempotency; import "` + module + `/crawl"`, "without a crawler"},
		"idempotency and a leaf":    {"serve/idempotency/embedded/a.go", `package embedded; import "` + module + `/internal/crash"`, ""},
		"idempotency and a store":   {"serve/idempotency/a.go", `package idempotency; import "` + module + `/serve/idempotency/postgres"`, "contract knows no store"},
		"idempotency's suite":       {"serve/idempotency/idempotencytest/a.go", `package idempotencytest; import "` + module + `/serve/idempotency/embedded"`, "suite imports no backend"},
		"pure imports":              {"frontier/canon/a.go", `package canon; import "net/http"`, "imports net/http"},
		"pure imports, allowed":     {"frontier/canon/a.go", `package canon; import "net/netip"`, ""},
		"pure test imports":         {"frontier/canon/a_test.go", `package canon; import "os"`, ""},
		"pure clock":                {"sizing/a.go", `package sizing; import "time"; var t = time.Now()`, "uses time.Now"},
		"pure clock, renamed":       {"sizing/a.go", `package sizing; import c "time"; var t = c.Since`, "uses time.Since"},
		"pure durations":            {"sizing/a.go", `package sizing; import "time"; const d = time.Second`, ""},
		"pure goroutine":            {"sizing/a.go", `package sizing; func f() { go f() }`, "starts a goroutine"},
		"vague package":             {"frontier/x/a.go", `package utils`, "too vague"},
		"vague folder":              {"frontier/types/a.go", `package kinds`, "too vague"},
		"vague test":                {"frontier/x/a_test.go", `package common_test`, "too vague"},
		"library flag":              {"fetcher/a.go", `package fetcher; import "flag"`, "only cmd does"},
		"library flag in a test":    {"fetcher/a_test.go", `package fetcher; import "flag"`, ""},
		"suite flag":                {"bloomstore/bloomtest/a.go", `package bloomtest; import "flag"`, ""},
		"library environment":       {"fetcher/a.go", `package fetcher; import "os"; var x = os.Getenv("X")`, "uses os.Getenv"},
		"library logger":            {"fetcher/a.go", `package fetcher; import "log/slog"; func f() { slog.Info("") }`, "uses slog.Info"},
		"library injected logger":   {"fetcher/a.go", `package fetcher; import "log/slog"; func f(l *slog.Logger) { l.Info("") }`, ""},
		"library init":              {"fetcher/a.go", `package fetcher; func init() {}`, "has an init"},
		"promise":                   {"fetcher/a.go", "package fetcher\n\n/* one\n FIXME later */", "line 4 promises"},
		"promise with its issue":    {"fetcher/a.go", "package fetcher // TODO(#7): h3", ""},
		"promise in a string":       {"fetcher/a.go", `package fetcher; const x = "TODO"`, ""},
		"promise in the Makefile":   {"Makefile", "all:\n\t# TODO", "line 2 promises"},
		"lua header":                {"frontier/redisstore/add.lua", luaHeader + "return #KEYS\n", ""},
		"lua without header":        {"frontier/redisstore/add.lua", "return #KEYS\n", "begins with no header"},
		"lua header of another":     {"frontier/redisstore/lease.lua", luaHeader, "begins with no header"},
		"lua header without ARGV":   {"frontier/redisstore/add.lua", luaHeader + "return ARGV[1]\n", "does not mention ARGV"},
		"lua header without cost":   {"frontier/redisstore/add.lua", strings.Replace(luaHeader, "cost", "price", 1), "does not mention cost"},
		"sql header":                {"internal/pgstore/get.sql", "-- get.sql: get it.\n-- $1 key\nSELECT a FROM t WHERE k = $1;\n", ""},
		"sql parameter":             {"internal/pgstore/get.sql", "-- get.sql: get it.\n-- $12 key\nSELECT a FROM t WHERE k = $1 AND l = $12;\n", "does not mention $1"},
		"sql without a word":        {"internal/pgstore/get.sql", "-- get.sql: \nSELECT 1;\n", "begins with no header"},
		"test data is not source":   {"fetcher/testdata/a.go", "not Go", ""},
		"link to a file":            {"docs/a.md", "[a](a.md), [go](https://go.dev/x.md)", ""},
		"link to nothing":           {"docs/a.md", "[b](guide/b.md)", "there is no docs/guide/b.md"},
		"link in code":              {"docs/a.md", "`[b](b.md)`\n```\n[b](b.md)\n```\n", ""},
		"link to a heading":         {"docs/a.md", "[b](a.md#a-b-c-1) [c](#a-b-c)\n# A `b`, [c](a.md)!\n## a b c\n", ""},
		"link to no heading":        {"docs/a.md", "[b](#b)\n```\n# b\n```\n", "no heading there has the anchor b"},
		"a line that fits":          {"docs/a.md", strings.Repeat("ü", columns), ""},
		"a long line":               {"docs/a.md", strings.Repeat("ü", columns+1), "line 1 has 121 columns"},
		"a long line of a program":  {"bench/RESULTS.md", strings.Repeat("ü", columns+1), ""},
		"comment with a lost page":  {"sizing/a.go", "package sizing // see docs/guide/b.md", "names docs/guide/b.md, which is not there"},
		"invented name":             {"fetcher/a.go", `package fetcher; func newTiers() {}`, "invented word \"tier\""},
		"invented variable":         {"fetcher/a_test.go", `package fetcher; func f() { shelf := 1; _ = shelf }`, "invented word \"shelf\""},
		"a longer word":             {"fetcher/a.go", `package fetcher; type frontierStore struct{}`, ""},
		"phrase over two lines":     {"fetcher/a.go", "package fetcher\n\n// f: it could not be\n// had.\nfunc f() {}", "could not be had"},
		"phrase in a string":        {"fetcher/a.go", `package fetcher; const user = "nobody"`, ""},
		"phrase in a test":          {"fetcher/a_test.go", "package fetcher // nobody", "name who or what"},
		"a package beside internal": {"docs/a.go", `package docs; import "` + module + `/sizing"`, "only the floors"},
	} {
		t.Run(name, func(t *testing.T) {
			faults, err := Check(fstest.MapFS{test.path: {Data: []byte(test.text)}})
			if err != nil {
				t.Fatal(err)
			}
			broken := test.want != ""
			if broken != (len(faults) > 0) || broken && !strings.Contains(faults[0], test.want) {
				t.Errorf("%s\n%s\nfaults %q, want one that says %q", test.path, test.text, faults, test.want)
			}
		})
	}
}

// TestUnreadableFile: for a file that cannot be parsed, Check returns an error.
func TestUnreadableFile(t *testing.T) {
	if faults, err := Check(fstest.MapFS{"sizing/a.go": {Data: []byte("package")}}); err == nil {
		t.Errorf("Check of a file that is not Go: faults %q and no error", faults)
	}
}
