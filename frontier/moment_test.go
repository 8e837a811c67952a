package frontier

import (
	"math"
	"testing"
	"time"
)

// TestMoments: every Moment stands for itself, and a time becomes the last Moment before it.
func TestMoments(t *testing.T) {
	t.Parallel()
	for m := range Moment(math.MaxUint16) {
		if got := MomentAt(m.Since()); got != m || MomentAt((m+1).Since()-1) != m {
			t.Fatalf("Moment %d is %v, which is Moment %d; a moment before the next is %d", m, m.Since(), got, MomentAt((m+1).Since()-1))
		}
	}
	for since, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, 59 * time.Second: 0, 90 * time.Second: time.Minute, 40 * 24 * time.Hour: 40*24*time.Hour - 52*time.Minute,
		math.MaxInt64: Moment(math.MaxUint16).Since(),
	} {
		if got := MomentAt(since).Since(); got != want {
			t.Errorf("the Moment of %v is %v, want %v", since, got, want)
		}
	}
}
