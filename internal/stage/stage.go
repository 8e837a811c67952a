// Package stage names the stages of a crawl in CPU profiles.
//
// It owns the label and its values. A goroutine that began a stage carries the
// label until it begins another, and so do the goroutines that it starts. That
// costs some nanoseconds, whether a profile is taken or not. It does not take
// profiles, and does not read them.
package stage

import (
	"context"
	"runtime/pprof"
)

// Label is the key of the label: go tool pprof -tags sums up by it.
const Label = "stage"

// Stage is a part of the work on a page.
type Stage struct{ labels context.Context }

// The stages. Work that belongs to none of them (leasing, robots rules, what
// watches a crawl) begins None.
var (
	None         = Stage{context.Background()}
	Fetch        = named("fetch")        // requests, their connections, bodies
	Parse        = named("parse")        // a body's charset, elements, links as they are spelled
	Canonicalise = named("canonicalise") // references to canonical URLs
	Judge        = named("judge")        // scope, traps, include and exclude
	Handle       = named("handle")       // OnPage
	Dedup        = named("dedup")        // filter, exact keys and queue of links
	Store        = named("store")        // all else in a store: completions, leases, the disk
	Record       = named("record")       // records, digests, kept answers
)

func named(name string) Stage {
	return Stage{pprof.WithLabels(context.Background(), pprof.Labels(Label, name))}
}

// Begin gives the calling goroutine the stage's label, instead of all that it has.
func (s Stage) Begin() { pprof.SetGoroutineLabels(s.labels) }
