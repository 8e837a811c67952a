package servers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// endWithParent has the kernel kill the server when we are killed, so that no
// end of a test leaves one behind.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// children returns the ids of the processes that pid started and that run.
func children(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	var found []int
	for _, stat := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err != nil {
			continue
		}
		if state, parent := status(child); parent == pid && state != 'Z' {
			found = append(found, child)
		}
	}
	return found
}

// runs reports whether a process is neither gone nor waits to be reaped.
func runs(pid int) bool {
	state, _ := status(pid)
	return state != 0 && state != 'Z'
}

// status returns the state of a process and its parent, zeros when it is gone.
func status(pid int) (state byte, parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	// pid (name) state parent …, and the name may contain anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 || len(fields[0]) != 1 {
		return 0, 0
	}
	if parent, err = strconv.Atoi(string(fields[1])); err != nil {
		return 0, 0
	}
	return fields[0][0], parent
}
