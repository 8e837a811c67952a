// Package crash has the crash points of the program: places between two effects that belong
// together, where tests let the program crash.
//
// The code calls Point at these places, and Point calls the hook. There is one hook for
// the whole process. Tests set it, and so does the command for --crash-at. Without a
// hook, a call of Point costs one load. Sizes let a short crawl reach the crash points.
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

// Point calls the hook with the name of a crash point, if there is a hook.
func Point(point string) {
	if f := hook.Load(); f != nil {
		(*f)(point)
	}
}
