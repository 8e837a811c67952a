package memlimit

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/bloomfrontier/crawler/fetcher"
)

// TestMemoryOfTheMachine: the size of the memory is read from files of the system.
func TestMemoryOfTheMachine(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for text, want := range map[string]uint64{
		"MemFree: 1 kB\nMemTotal:       1024 kB\n": 1 << 20, "MemTotal: many kB\n": math.MaxUint64, "": math.MaxUint64,
	} {
		if got := machineMemory(file(text)); got != want {
			t.Errorf("machineMemory of %q = %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]uint64{"536870912\n": 512 << 20, "max\n": math.MaxUint64} {
		if got := groupMemory(file(text)); got != want {
			t.Errorf("groupMemory of %q = %d, want %d", text, got, want)
		}
	}
	if got := machineMemory("none"); got != math.MaxUint64 {
		t.Errorf("machineMemory of a missing file = %d, want %d", got, uint64(math.MaxUint64))
	}
	if got := Default(); got < minDefault || got > maxDefault {
		t.Errorf("Default() = %d, want %d to %d", got, minDefault, maxDefault)
	}
}

// TestShortMemory: memory is short if the live heap does not fit into the limit. When the
// filter grows, the memory limit of the runtime grows by the same number of bytes.
func TestShortMemory(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(-1)
	debug.SetGCPercent(percent)
	defer func() { debug.SetMemoryLimit(limit); debug.SetGCPercent(percent) }()
	filter := uint64(0)
	k := New(4<<30, func() uint64 { return filter })
	if got := k.Scarce(); got == fetcher.Memory {
		t.Errorf("with 4 GiB: Scarce() = %q, want no shortage of memory", got)
	}
	filter = 1 << 30
	k.Scarce()
	if got := debug.SetMemoryLimit(-1); got != 5<<30-programMemory {
		t.Errorf("with 4 GiB and a filter of 1 GiB: memory limit %d, want %d", got, 5<<30-programMemory)
	}
	if got := New(1<<20, func() uint64 { return 0 }).Scarce(); got != fetcher.Memory {
		t.Errorf("with 1 MiB: Scarce() = %q, want %q", got, fetcher.Memory)
	}
	debug.SetMemoryLimit(1 << 20)
	if got := New(0, func() uint64 { return 0 }).Scarce(); got != fetcher.Memory || debug.SetMemoryLimit(-1) != 1<<20 {
		t.Errorf("with a limit of the environment of 1 MiB: Scarce() = %q and limit %d, want %q and the same limit", got, debug.SetMemoryLimit(-1), fetcher.Memory)
	}
}
