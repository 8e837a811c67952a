package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/bloomfrontier/crawler/crawl"
)

// tree describes the files below dir: size, time and mode of each.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err == nil && filepath.Base(path) != "LOCK" {
			files[path] = fmt.Sprint(info.Size(), info.ModTime(), info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// unwritable returns a path to dir that allows no writes. For root, this is the path of a
// read-only mount of dir. For other users, it is dir, from which unwritable removes the
// write permissions.
func unwritable(t *testing.T, dir string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		modes := func(and, or fs.FileMode) {
			for path := range tree(t, dir) {
				info, err := os.Stat(path)
				if err == nil {
					err = os.Chmod(path, info.Mode()&and|or)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		modes(^fs.FileMode(0o222), 0)
		if err := os.Chmod(filepath.Join(dir, "LOCK"), 0o444); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		t.Cleanup(func() { modes(^fs.FileMode(0), 0o200) })
		return dir
	}
	at := t.TempDir()
	if err := syscall.Mount(dir, at, "", syscall.MS_BIND, ""); err != nil {
		if os.Getenv("CRAWLER_TEST_SERVERS") == "require" && os.Geteuid() == 0 && !errors.Is(err, fs.ErrPermission) {
			t.Fatalf("cannot mount the directory read-only: %v", err)
		}
		t.Skipf("cannot mount the directory read-only: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mount("", at, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	return at
}

// TestLookingWritesNothing: a command that only inspects a crawl changes nothing in its
// directory, and needs no permission to write there. It still notices a process that
// has the crawl open.
func TestLookingWritesNothing(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("CLI_TEST_HOLD"); dir != "" { // the other process
		h, err := crawl.Attach(t.Context(), crawl.Location{Dir: dir})
		if err == nil {
			release, openErr := h.Keep(t.Context())
			if err = openErr; err == nil {
				fmt.Println("held")
				_, _ = os.Stdin.Read(make([]byte, 1)) // until stdin is closed
				err = release()
			}
		}
		if err != nil {
			fmt.Println(err)
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "x.crawl")
	connectTo, _, release := heldSite(t)
	release()
	must(t, "crawl", "--dir", dir, "--urls", "10k", "--delay", "0", "--connect-to", connectTo, "http://a.test/")
	must(t, "seed", "--dir", dir, "http://a.test/waits")
	look := func(dir string) {
		t.Helper()
		before := tree(t, dir)
		for _, args := range [][]string{
			{"status"}, {"status", "--json"}, {"status", "--watch"}, {"status", "--audit"}, {"report", "--probe", "1ms"}, {"report", "--probe", "1ms", "--json"},
			{"explain", "http://a.test/held"}, {"explain", "http://a.test/waits"}, {"output"}, {"output", "--referrers"},
		} {
			code, out, errs := run(t, "", append(args, "--dir", dir)...)
			if code != exitOK || out == "" {
				t.Errorf("%q: exit code %d: %s%s", args, code, out, errs)
			}
		}
		if after := tree(t, dir); !reflect.DeepEqual(after, before) {
			t.Errorf("files before: %v\nfiles after: %v", before, after)
		}
	}
	look(dir)
	locked := filepath.Join(dir, "LOCK")
	at := unwritable(t, dir)
	look(at)
	if code, _, errs := run(t, "", "pause", "--dir", at); code != exitFailed || !strings.Contains(errs, "LOCK: ") {
		t.Errorf("pause without write permission: exit code %d: %s", code, errs)
	}
	if at == dir {
		return // the other process could not open the crawl
	}
	wantHeld(t, dir, at)
	if err := os.Remove(locked); err != nil { // the lock is also missing in some backups
		t.Fatal(err)
	}
	look(at)
}

// wantHeld checks that a crawl cannot be inspected while another process has it open. The
// other process opens dir. The inspection uses inspectedDir, which is another path to the
// same directory.
func wantHeld(t *testing.T, dir, inspectedDir string) {
	t.Helper()
	other := exec.Command(os.Args[0], "-test.run=^TestLookingWritesNothing$")
	other.Env = append(os.Environ(), "CLI_TEST_HOLD="+dir)
	stop, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	held := make([]byte, len("held"))
	if n, err := said.Read(held); err != nil || string(held[:n]) != "held" {
		t.Errorf("the other process prints %q (%v), want \"held\"", held[:n], err)
	}
	if code, _, errs := run(t, "", "status", "--dir", inspectedDir); code != exitFailed || !strings.Contains(errs, "is in use by another crawler") {
		t.Errorf("status while another process has the crawl open: exit code %d, want an error: %s", code, errs)
	}
	if err := errors.Join(stop.Close(), other.Wait()); err != nil {
		t.Error(err)
	}
}

// TestExportOfUnwritableJournals: an export needs no permission to write in the
// workers' directories.
func TestExportOfUnwritableJournals(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "web.crawl", "w1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	line := `{"url":"http://a.test/","host":"a.test","outcome":"ok","fingerprint":"00000000000000000000000000000001",` +
		`"lease":"00000000000000000000000000000002","round":0,"fetched_at":"2026-11-22T10:00:00.000Z"}` + "\n"
	for name, text := range map[string]string{"worker.json": `{"format":1,"crawl":"web","id":"x"}`, "pages.jsonl": line, "pages.lock": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out := must(t, "export", unwritable(t, dir)); out != line {
		t.Errorf("export prints %s, want %s", out, line)
	}
}
