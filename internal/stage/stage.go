// Package stage names the stages of a crawl in CPU profiles.
//
// It owns the label and its values. A goroutine has the label of the stage that it began
// last. The goroutines that it starts inherit the label. Begin takes some nanoseconds,
// whether a profile is taken or not. The package neither takes nor reads profiles.
package stage

import (
	"context"
	"runtime/pprof"
)

// Label is the key of the label. go tool pprof -tags prints a sum for each of its values.
const Label = "stage"

// Stage is a part of the work on a page.
type Stage struct{ labels context.Context }

// The stages. None is for work that belongs to no other stage, such as the check of robots
// rules, the observers of a crawl, and the calls with which a worker leases hosts.
var (
	None         = Stage{context.Background()}
	Fetch        = named("fetch")        // requests, their connections, bodies
	Parse        = named("parse")        // the charset of a body, its elements, its links as written
	Canonicalise = named("canonicalise") // references become canonical URLs
	Judge        = named("judge")        // scope, traps, include and exclude
	Handle       = named("handle")       // OnPage
	Dedup        = named("dedup")        // filter, exact keys and queue of links
	Store        = named("store")        // completions, and all other work of the embedded store: leases, the disk
	Record       = named("record")       // records, digests, kept answers
)

func named(name string) Stage {
	return Stage{pprof.WithLabels(context.Background(), pprof.Labels(Label, name))}
}

// Begin replaces all labels of the calling goroutine by the stage's label.
func (s Stage) Begin() { pprof.SetGoroutineLabels(s.labels) }
