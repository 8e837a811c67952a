# Targets for development; CI runs the same ones. "make" prints them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

MODULE := github.com/bloomfrontier/crawler
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
TOOL := go tool -modfile=$(CURDIR)/tools/go.mod
MODULES := . bench

# The released binary and the tests are built with the same flags, so that nothing is
# compiled twice. Only the race detector needs cgo.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath $(GOFLAGS)

# If everything is installed, or with CRAWLER_TEST_SERVERS=require, a test fails if the
# server or page that it needs is missing. Otherwise the test is skipped. Without a C
# compiler the tests run without the race detector.
MISSING = $(shell tools/deps.sh missing)
REQUIRE = $(if $(MISSING),$(CRAWLER_TEST_SERVERS),require)
RACE = $(if $(shell command -v gcc),-race)

FUZZTIME ?= 5s
BENCHCOPIES ?= 10

# Targets run one after the other: those of test are in the order of growing cost.
.NOTPARALLEL:

# step prints the name of the step that begins, so that a log shows how far it came.
step = @printf '==> %s\n' "$(1)"

.PHONY: help
help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

.PHONY: deps
deps: ## install what the tests need (Debian packages), or say what is skipped
	@tools/deps.sh

.PHONY: build
build: ## bin/crawler: one static binary
	go build -ldflags '-s -w -X $(MODULE)/crawl.BuildVersion=$(VERSION)' -o bin/crawler ./cmd/crawler

.PHONY: demo
demo: build ## crawl 100 pages of a small web made for tests, with a summary
	@tools/demo.sh

.PHONY: test
test: deps lint build race plain ## everything that CI checks

.PHONY: lint
lint: ## gofmt, vet, staticcheck and the rules of the architecture
	$(call step,gofmt)
	@unformatted=$$(gofmt -l .); [[ -z $$unformatted ]] || { echo "not formatted:" $$unformatted >&2; exit 1; }
	$(call step,go vet)
	@for module in $(MODULES); do go -C $$module vet ./...; done
	$(call step,staticcheck)
	@for module in $(MODULES); do (cd $$module && $(TOOL) staticcheck ./...); done
	$(call step,archtest)
	@go test ./internal/archtest

# The race detector needs cgo, and makes tests several times slower. So it runs where
# goroutines start (tools/packages.sh), and not for tests that run the product in separate
# processes: those of package cli run the same commands in their own process. Three packages
# run at a time, and four tests of each, because many tests wait for servers and delays.
.PHONY: race
race: build ## the tests of packages that start goroutines, under the race detector
	$(call step,go test $(RACE)$(if $(MISSING), (skipped: what needs $(MISSING))))
	@export CGO_ENABLED=$(if $(RACE),1,0) CRAWLER_TEST_SERVERS=$(REQUIRE) CRAWLER_BIN=$(CURDIR)/bin/crawler; \
	go test -p 3 -parallel 4 $(RACE) -timeout 25m -vet=off -short $$(tools/packages.sh race)

# Tests of rates and memory run without the detector, which slows them down and cannot
# find their faults. In the run above these packages skip such tests. Of bench/proofs, seven
# tests run here, small: the ways in which a crawl is kept or served, and README. make proof
# runs all.
PROOFS := ^Test(Killed|WholeWeb|SharedKilled|PostgresWorkersKilled|InboxKilled|ReadmeWorkers|Served)$$

.PHONY: plain
plain: build ## all other tests
	$(call step,go test without -race$(if $(MISSING), (skipped: what needs $(MISSING))))
	@export CRAWLER_TEST_SERVERS=$(REQUIRE) CRAWLER_BIN=$(CURDIR)/bin/crawler; \
	go test -p 3 -parallel 4 -vet=off -short $$(tools/packages.sh plain); \
	go test -vet=off ./bloomstore/...; \
	go test -vet=off -short -parallel 3 -timeout 25m ./cmd/crawler; \
	go -C bench test -vet=off -short ./library ./pagedata ./warccheck ./dashboard; \
	go -C bench test -vet=off ./dedup; \
	go -C bench test -vet=off -short -run '$(PROOFS)' ./proofs; \
	tools=$$(tools/packages.sh tools); [[ -z $$tools ]] || go test -p 1 -vet=off -short $$tools; \
	bench=$$(tools/packages.sh bench); [[ -z $$bench ]] || go -C bench test -p 1 -vet=off -short $$bench

# This is not part of test: it looks for unknown faults, so it may fail for a commit that
# did not cause the fault. Inputs that failed are in testdata/fuzz, and test runs them.
.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (5s)
	$(call step,fuzz each target for $(FUZZTIME))
	@tools/fuzz.sh $(FUZZTIME)

BENCHBUDGET ?= 9m

.PHONY: bench
bench: deps build bin/bench ## measure filters, stores and crawls on this machine, into bench/RESULTS.md (ten minutes)
	@bin/bench measure -budget $(BENCHBUDGET) -report bench fpr speed crawl memory

.PHONY: bench-peers
bench-peers: build bin/bench ## our speed against a bare loop and colly on real HTML
	$(call step,bare loop against crawler against colly)
	@bin/bench compare -copies $(BENCHCOPIES)

.PHONY: bench-go
bench-go: ## the Go benchmarks six times, for benchstat
	@for module in $(MODULES); do go -C $$module test -run '^$$' -bench . -benchmem -count 6 -timeout 0 ./...; done | tee bin/bench.txt
	@$(TOOL) benchstat bin/bench.txt

.PHONY: bench-full
bench-full: bench ## the same, all comparisons, and the long ones: 100 million URLs (hours)
	$(call step,a hundred million URLs: memory)
	@bin/bench measure -n 100M -fpr 1e-6 -budget 8h -report bin/bench-full memory
	$(call step,ten million keys in each set: rates)
	@bin/bench measure -n 10M -fpr 1e-6 -budget 4h -report bin/bench-fpr fpr
	$(call step,crawls of up to a million pages on ten hosts and on a hundred thousand)
	@bin/bench measure -n 1M -budget 1h -report bin/bench-crawl crawl
	$(call step,crawls of thousands of late hosts at once)
	@bin/bench measure -tls -each 40s -budget 1h -report bin/bench-broad broad
	$(call step,crawls of a web like the real one)
	@bin/bench measure -each 60s -budget 1h -report bin/bench-mix mix
	$(call step,the filter in Redis: a hundred million URLs and two starts)
	@go -C bench test . -run '^$$' -bench RedisFilter -benchtime 1x -timeout 0 -filter.keys 100000000
	$(call step,the embedded store: starts with a hundred million known URLs)
	@go test ./frontier/localstore -run '^$$' -bench Restart -benchtime 1x -timeout 0 -size 100000000
	@$(MAKE) --no-print-directory bench-peers BENCHCOPIES=100
	@$(MAKE) --no-print-directory bench-go
	$(call step,a million pages)
	@CRAWLER_BIN=$(CURDIR)/bin/crawler go -C bench test . -v -run '^$$' -bench LongCrawl -benchtime 1x -timeout 0 -long.pages 1000000 -long.every 1m
	$(call step,dedup of ten million lines)
	@go -C bench test ./dedup -run '^$$' -bench . -benchtime 1x -timeout 0 -urls 10000000

.PHONY: proof
proof: deps build ## the proofs at full size, into docs/proofs.md, and the tests of what we measure and test with
	@tools/proof.sh
	@CRAWLER_TEST_SERVERS=require go test -p 1 -short ./internal/bench/... ./internal/testkit/... ./internal/testweb
	@CRAWLER_TEST_SERVERS=require CRAWLER_BIN=$(CURDIR)/bin/crawler go -C bench test -p 1 -short . ./contest ./crawl ./peers ./realhtml ./site

.PHONY: ci
ci: ## as CI does it
	@.ci/run

.PHONY: bin/bench
bin/bench:
	@go -C bench build -o ../bin/bench .
