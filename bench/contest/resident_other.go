//go:build !linux

package contest

import "os"

// resident returns 0, because the unit of Maxrss differs between systems.
func resident(*os.ProcessState) uint64 { return 0 }
