package suite

import "time"

// TooLong reports whether something that took the time took, by the wall clock, took longer than most,
// which is ample on a machine that has nothing else to do. On a slower or busier machine it may take longer. So if
// took is more than most, TooLong measures how much longer a fixed computation takes here and now, and multiplies
// most by that, at most by maxSlowness.
func TooLong(took, most time.Duration) bool {
	return took > most && took > time.Duration(float64(most)*slowness())
}

const (
	// usualTime is what the computation of slowness takes at most on one free core of 2 GHz.
	usualTime   = 40 * time.Millisecond
	maxSlowness = 20
)

// slowness returns how many times usualTime a fixed computation takes: the slowest of five, from 1 to
// maxSlowness. The computation reads and writes memory, which the race detector slows down as it does in tests.
func slowness() float64 {
	var slowest time.Duration
	table := make([]uint64, 1<<12)
	for range 5 {
		began := time.Now()
		for i, x := 0, uint64(1); i < 10_000_000; i++ {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			table[x%uint64(len(table))] += x
		}
		slowest = max(slowest, time.Since(began))
	}
	return min(max(float64(slowest)/float64(usualTime), 1), maxSlowness)
}
