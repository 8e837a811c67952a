//go:build race

package redisbits

// raceEnabled reports whether the race detector is on. It makes tests ten times as slow
// and finds nothing in tests with one goroutine, so long tests of that kind are skipped.
const raceEnabled = true
