package cli

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/internal/crash"
)

// addCrash declares --crash-at, for tests.
func addCrash(f *pflag.FlagSet, at *string) {
	f.StringVar(at, "crash-at", "", "end like kill -9 at the N-th `POINT:N`; for tests")
	checkText(f, "crash-at", "POINT:N", func(text string) error {
		_, _, err := parseCrash(text)
		return err
	})
	_ = f.MarkHidden("crash-at")
}

func parseCrash(text string) (point string, n int64, err error) {
	point, number, _ := strings.Cut(text, ":")
	if n, err = strconv.ParseInt(number, 10, 64); err == nil && (n < 1 || point == "") {
		err = errors.New("not a point")
	}
	return point, n, err
}

// crashAt parses POINT:N, in which POINT is the name of a place in the program. The process
// will end as after kill -9 when it reaches this place for the N-th time. If text is empty,
// the process does not end early.
func crashAt(text string) {
	point, n, err := parseCrash(text)
	if err != nil { // text is empty; the flag refuses all other texts that are not valid
		crash.Hook(nil)
		return
	}
	var seen atomic.Int64
	crash.Hook(func(at string) {
		if at == point && seen.Add(1) == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
}
