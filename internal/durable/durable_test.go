package durable_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/bloomfrontier/crawler/internal/durable"
)

// text returns a function that writes s in two parts.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s[:len(s)/2])
		if err == nil {
			_, err = io.WriteString(w, s[len(s)/2:])
		}
		return err
	}
}

func read(t *testing.T, filesystem vfs.FS, name string) string {
	t.Helper()
	file, err := filesystem.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// failing returns a file system in which the n-th write and all later writes fail.
func failing(filesystem vfs.FS, n int64) vfs.FS {
	var writes atomic.Int64
	return errorfs.Wrap(filesystem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && writes.Add(1) >= n {
			return errorfs.ErrInjected
		}
		return nil
	}))
}

// TestReplaceCrash cuts the power before each write. The file must be the complete old or
// the complete new file. It must be the new file if Replace returned nil.
func TestReplaceCrash(t *testing.T) {
	for name, replace := range map[string]func(vfs.FS, string, func(io.Writer) error) error{
		"Replace": durable.Replace, "ReplacePrivate": durable.ReplacePrivate,
	} {
		whole := false
		for n := int64(1); !whole; n++ {
			disk := vfs.NewCrashableMem()
			if err := errors.Join(disk.MkdirAll("d", 0o700), durable.SyncDir(disk, ""), replace(disk, "d/f", text("old"))); err != nil {
				t.Fatal(err)
			}
			err := replace(failing(disk, n), "d/f", text("new text"))
			whole = err == nil
			for _, percent := range []int{0, 50, 100} {
				after := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(uint64(n), 0))})
				if got := read(t, after, "d/f"); got != "new text" && (whole || got != "old") {
					t.Errorf("%s, crash at write %d (%v): the file has %q, want all of the old or of the new text",
						name, n, err, got)
				}
			}
			if n == 1 && whole {
				t.Fatalf("%s made no write that could fail", name)
			}
		}
	}
}

// TestReplaceFails: if the function write returns an error, the file is unchanged, and
// there is no other file.
func TestReplaceFails(t *testing.T) {
	disk, errText := vfs.NewMem(), errors.New("no text")
	if err := errors.Join(disk.MkdirAll("d", 0o700), durable.Replace(disk, "d/f", text("old"))); err != nil {
		t.Fatal(err)
	}
	err := durable.Replace(disk, "d/f", func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return errText
	})
	if names, _ := disk.List("d"); !errors.Is(err, errText) || read(t, disk, "d/f") != "old" || !slices.Equal(names, []string{"f"}) {
		t.Errorf("Replace: %v; files %q; want the error of its function, and f unchanged", err, names)
	}
}

// TestReplacePrivate: the file has PrivateMode while it is written and afterwards,
// even if a file with its temporary name exists before.
func TestReplacePrivate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name+durable.NewSuffix, []byte("theirs"), 0o666); err != nil {
		t.Fatal(err)
	}
	mode := func(name string) os.FileMode {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	err := durable.ReplacePrivate(vfs.Default, name, func(w io.Writer) error {
		if got := mode(name + durable.NewSuffix); got != durable.PrivateMode {
			t.Errorf("mode %v while it is written, want %v", got, os.FileMode(durable.PrivateMode))
		}
		return text("ours")(w)
	})
	if err != nil || mode(name) != durable.PrivateMode || read(t, vfs.Default, name) != "ours" {
		t.Errorf("ReplacePrivate: %v; the file has the mode %v and the text %q",
			err, mode(name), read(t, vfs.Default, name))
	}
}

// TestOpenAt: OpenAt cuts off bytes after the committed length, and writing continues
// there. For a file that is too short it returns a MissingError.
func TestOpenAt(t *testing.T) {
	for kind, filesystem := range map[string]vfs.FS{"disk": vfs.Default, "memory": vfs.NewMem()} {
		dir := t.TempDir()
		if err := filesystem.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		name := filesystem.PathJoin(dir, "f")
		for _, test := range []struct {
			length int64
			add    string
			want   string
		}{
			{0, "hello", "hello"},
			{5, " world", "hello world"},
			{2, "y", "hey"},
			{3, "", "hey"},
			{0, "", ""},
		} {
			file, err := durable.OpenAt(filesystem, name, test.length)
			if err != nil {
				t.Fatal(err)
			}
			_, err = file.WriteAt([]byte(test.add), test.length)
			if err = errors.Join(err, file.Close()); err != nil {
				t.Fatal(err)
			}
			if got := read(t, filesystem, name); got != test.want {
				t.Errorf("%s: text %q after writing %q at byte %d, want %q", kind, got, test.add, test.length, test.want)
			}
		}
		_, err := durable.OpenAt(filesystem, name, 7)
		missing, is := errors.AsType[*durable.MissingError](err)
		if !is || *missing != (durable.MissingError{Name: name, Size: 0, Committed: 7}) || !strings.Contains(err.Error(), "0 bytes, but 7") {
			t.Errorf("%s: OpenAt of a file that is too short: %v, want a MissingError", kind, err)
		}
		if names, _ := filesystem.List(dir); !slices.Equal(names, []string{"f"}) {
			t.Errorf("%s: files %q are left, want f", kind, names)
		}
	}
}

// TestLock: until a lock is closed, no other caller can lock the file, in this process or in
// another one. This holds for every path to the file.
func TestLock(t *testing.T) {
	if name := os.Getenv("DURABLE_TEST_LOCK"); name != "" { // the other process
		_, err := durable.Lock(vfs.Default, name)
		fmt.Println(err)
		return
	}
	dir := t.TempDir()
	t.Chdir(dir)
	if err := errors.Join(os.Mkdir("d", 0o700), os.Symlink("d", "link")); err != nil {
		t.Fatal(err)
	}
	spellings := []string{"d/f", filepath.Join(dir, "d/f"), "link/f", "d/../d/f"}
	for range 2 { // the second time, the file exists
		lock, err := durable.Lock(vfs.Default, "d/f")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range spellings {
			if _, err := durable.Lock(vfs.Default, name); !errors.Is(err, durable.ErrHeld) {
				t.Errorf("Lock(%q) of a locked file = %v, want ErrHeld", name, err)
			}
			if !durable.LockedByOther(name) {
				t.Errorf("LockedByOther(%q) of a locked file = false", name)
			}
		}
		other := exec.Command(os.Args[0], "-test.run=^TestLock$")
		other.Env = append(os.Environ(), "DURABLE_TEST_LOCK="+filepath.Join(dir, "d/f"))
		if out, err := other.CombinedOutput(); err != nil || !strings.Contains(string(out), durable.ErrHeld.Error()) {
			t.Errorf("Lock in another process, after the failed calls in this one, printed %s, %v, want ErrHeld", out, err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
		if durable.LockedByOther("d/f") {
			t.Error("LockedByOther of an unlocked file = true")
		}
	}
	if _, err := durable.Lock(vfs.Default, "d"); err == nil || errors.Is(err, durable.ErrHeld) {
		t.Errorf("Lock of a directory = %v, want an error other than ErrHeld", err)
	}
}
