// Package crash names the points of the program at which a crash is worth a
// test: between two effects that belong together.
//
// The code that has such a point calls Point. What happens there is the process's
// matter and no setting of a package: a test sets a Hook, and the command does so
// for --crash-at. Without a hook a point costs one load.
package crash

import "sync/atomic"

var hook atomic.Pointer[func(point string)]

// Hook has f called at each point of the process; nil ends that. A test that sets
// a hook must not run beside other tests.
func Hook(f func(point string)) {
	if f == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&f)
}

// Point is where a crash is worth a test. It calls the hook, if there is one.
func Point(point string) {
	if f := hook.Load(); f != nil {
		(*f)(point)
	}
}
