// Package crash names the points of the program at which a crash is tested: between two
// effects that belong together.
//
// The code calls Point there. The effect belongs to the process and not to a package: a test
// sets a Hook, and the command does so for --crash-at. Without a hook a point costs one load.
package crash

import "sync/atomic"

var hook atomic.Pointer[func(point string)]

// Hook sets the function that is called at each point of the process; nil removes it. A test
// that sets a hook must not run in parallel with other tests.
func Hook(f func(point string)) {
	if f == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&f)
}

// Point calls the hook, if there is one.
func Point(point string) {
	if f := hook.Load(); f != nil {
		(*f)(point)
	}
}
