package embedded_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/serve/idempotency/idempotencytest"
)

const dirVariable = "IDEMPOTENCY_TEST_DIR"

func TestMain(m *testing.M) {
	idempotencytest.Child(func(context.Context) (idempotencytest.Backend, error) {
		b := &backend{t: panicking{}, now: time.Now, dir: os.Getenv(dirVariable), disk: vfs.Default}
		b.open()
		return b, nil
	})
	os.Exit(m.Run())
}

// panicking is the testing.TB of the child process.
type panicking struct{ testing.TB }

func (panicking) Helper()           {}
func (panicking) Fatal(args ...any) { panic(args) }

// TestKilled kills a process with kill -9 between the effect and the answer.
func TestKilled(t *testing.T) {
	b := &backend{t: t, now: time.Now, dir: t.TempDir(), disk: vfs.Default}
	idempotencytest.Killed(t, []string{dirVariable + "=" + b.dir}, func() (idempotencytest.Backend, func()) {
		b.open()
		return b, func() { must(t, b.db.Close()) }
	})
}
