//go:build !linux

package crawl

import "time"

// sinceBoot returns a time that includes the time during which the system was suspended: here that of the wall clock.
func sinceBoot() time.Duration { return time.Duration(time.Now().UnixNano()) }
