//go:build !unix

package speed

import "time"

// ownCPU returns 0, because it is unknown on this system.
func ownCPU() time.Duration { return 0 }
