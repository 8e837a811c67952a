package contest

import (
	"os"
	"syscall"
)

// resident returns the most memory of a process that ended which was resident.
func resident(state *os.ProcessState) uint64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return uint64(usage.Maxrss) << 10 // Linux counts KiB
}
