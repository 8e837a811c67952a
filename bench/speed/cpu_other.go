//go:build !unix

package speed

import "time"

// ownCPU returns 0: it is not known here.
func ownCPU() time.Duration { return 0 }
