package contest

import (
	"os"
	"syscall"
)

// resident returns the maximum resident memory of a process that has ended, in bytes.
func resident(state *os.ProcessState) uint64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return uint64(usage.Maxrss) << 10 // Linux counts KiB
}
