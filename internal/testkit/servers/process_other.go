//go:build !linux

package servers

import "syscall"

// endWithParent does nothing, because only Linux can end a process together with its
// parent.
func endWithParent(*syscall.SysProcAttr) {}

// children returns no ids, because there is no /proc. So signals go only to the server
// itself. Its children end when they notice that the server has ended.
func children(int) []int { return nil }

// awaitStop does nothing, because children returns no ids.
func awaitStop(int) {}

// isRunning returns false, because children returns no ids to wait for.
func isRunning(int) bool { return false }
