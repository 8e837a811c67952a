//go:build unix && !linux

package servers

import "syscall"

// endWithParent does nothing: only Linux offers it.
func endWithParent(*syscall.SysProcAttr) {}

// children returns none: without /proc only the server itself is signalled. Its
// children notice that it is gone, and end then.
func children(int) []int { return nil }

func runs(int) bool { return false }
