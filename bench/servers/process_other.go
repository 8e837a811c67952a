//go:build unix && !linux

package servers

import "syscall"

// endWithParent does nothing, because only Linux offers this.
func endWithParent(*syscall.SysProcAttr) {}

// children returns none, because there is no /proc. So signals go only to the
// server itself; its children end when they notice that it has ended.
func children(int) []int { return nil }

// runs returns false.
func runs(int) bool { return false }
