//go:build race

package redisbits

// raceEnabled reports that the race detector is on. It slows a test tenfold and
// finds nothing in one of a single goroutine: the long ones of those skip then.
const raceEnabled = true
