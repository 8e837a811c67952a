package crawl

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since the system was started. It includes the time during which the system was suspended,
// which the monotonic clock of package time leaves out.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(now.Nano())
}
