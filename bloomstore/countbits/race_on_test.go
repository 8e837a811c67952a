//go:build race

package countbits

// raceEnabled reports whether the race detector is on. The detector makes tests ten
// times as slow, and finds nothing in tests with one goroutine. So long tests with one
// goroutine are skipped.
const raceEnabled = true
