package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// crashHook returns what ends the process like kill -9 the N-th time that a
// point named in text is reached; nil without text.
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
