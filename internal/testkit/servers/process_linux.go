package servers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// endWithParent makes the kernel kill the server when this process dies. So no server
// outlives a test, however the test ends.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// children returns the ids of the running child processes of pid.
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

// awaitStop waits, for at most a second, until a process has stopped or ended. The caller has
// sent SIGSTOP to the process.
func awaitStop(pid int) {
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if state, _ := status(pid); state == 'T' || state == 'Z' || state == 0 {
			return
		}
	}
}

// isRunning reports whether a process exists and is not a zombie.
func isRunning(pid int) bool {
	state, _ := status(pid)
	return state != 0 && state != 'Z'
}

// status returns the state of a process and the id of its parent, or zeros if the
// process does not exist.
func status(pid int) (state byte, parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	// The file is "pid (name) state parent …". The name can contain any character.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 || len(fields[0]) != 1 {
		return 0, 0
	}
	if parent, err = strconv.Atoi(string(fields[1])); err != nil {
		return 0, 0
	}
	return fields[0][0], parent
}
