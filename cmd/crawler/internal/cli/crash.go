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

// crashAt makes the process end like kill -9 at the crash point that the argument text
// names. It does nothing if text is empty.
func crashAt(text string) {
	point, n, err := parseCrash(text)
	if err != nil { // text is empty, because the flag accepts no other invalid text
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
