package suite

import (
	"testing"
	"time"
)

func TestTooLong(t *testing.T) {
	for _, c := range []struct {
		took, most time.Duration
		want       bool
	}{{time.Second, time.Second, false}, {0, 0, false}, {maxSlowness*time.Second + 1, time.Second, true}} {
		if got := TooLong(c.took, c.most); got != c.want {
			t.Errorf("TooLong(%v, %v) = %t, want %t", c.took, c.most, got, c.want)
		}
	}
	t.Logf("this machine is %.1f times slower than usual", slowness())
}
