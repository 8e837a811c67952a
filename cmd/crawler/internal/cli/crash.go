package cli

import (
	"fmt"
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
		_, err := crashHook(text)
		return err
	})
	_ = f.MarkHidden("crash-at")
}

// crashAt installs the hook for the value of --crash-at.
func crashAt(text string) error {
	die, err := crashHook(text)
	crash.Hook(die)
	return err
}

// crashHook parses POINT:N. It returns a function that ends the process like kill -9
// when it is called with this point for the N-th time, or nil if text is empty.
func crashHook(text string) (func(string), error) {
	if text == "" {
		return nil, nil
	}
	point, number, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || point == "" {
		return nil, fmt.Errorf("--crash-at is %q, want POINT:N", text)
	}
	var seen atomic.Int64
	return func(at string) {
		if at == point && seen.Add(1) == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}, nil
}
