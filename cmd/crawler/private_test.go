package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPrivateFiles: only the owner can enter a new crawl directory, connect to the socket
// or read the files that contain a key. This holds at every moment and for every umask.
func TestPrivateFiles(t *testing.T) {
	program, err := exec.LookPath("crawler") // testscript.Main has put it into PATH
	if err != nil {
		t.Fatal(err)
	}
	entered := make(chan struct{}, 1)
	site := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
	}))
	defer site.Close()
	for _, umask := range []string{"0", "0277", "0777", "022"} {
		for _, exists := range []bool{false, true} {
			t.Run(fmt.Sprintf("umask %s, existing directory %t", umask, exists), func(t *testing.T) {
				temp := t.TempDir()
				dir := filepath.Join(temp, "parent", "c.crawl")
				wantDir := fs.FileMode(0o700)
				if exists { // made by the user, and open to all users
					wantDir = 0o777
					if err := os.MkdirAll(dir, wantDir); err != nil {
						t.Fatal(err)
					}
					if err := os.Chmod(dir, wantDir); err != nil {
						t.Fatal(err)
					}
				}
				crawl := underUmask(t, umask, program, "crawl", "--dir", dir, "--urls", "1000", "--allow-private", "http://"+site.Listener.Addr().String()+"/")
				if err := crawl.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_ = crawl.Wait()
				}()
				defer func() { _ = crawl.Process.Kill(); <-ended }()
				card := make(chan error, 1)
				go func() {
					card <- firstMode(ended, 0o600, filepath.Join(dir, "crawl.json.new"), filepath.Join(dir, "crawl.json"))
				}()
				if err := firstMode(ended, fs.ModeSocket|0o600, filepath.Join(dir, "control.sock")); err != nil {
					t.Error(err)
				}
				if err := <-card; err != nil {
					t.Error(err)
				}
				select {
				case <-entered: // the crawl has begun
				case <-ended:
					t.Fatalf("the crawl ended before its first request: %s", crawl.Stderr)
				}
				for name, want := range map[string]fs.FileMode{
					dir: fs.ModeDir | wantDir, filepath.Join(dir, "crawl.json"): 0o600, filepath.Join(dir, "control.sock"): fs.ModeSocket | 0o600,
				} {
					if info, err := os.Lstat(name); err != nil || info.Mode() != want {
						t.Errorf("%s: %v (%v), want %v", name, info.Mode(), err, want)
					}
				}
				if _, err := os.Lstat(filepath.Join(dir, "control.sock.new")); err == nil {
					t.Error("control.sock.new still exists; the socket was made in this folder")
				}
				if out, err := exec.Command(program, "status", "--dir", dir).CombinedOutput(); err != nil {
					t.Errorf("status: %v\n%s", err, out)
				}
			})
		}
	}
	t.Run("dedup", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "seen.dedup")
		dedup := underUmask(t, "0", program, "dedup", "--dir", dir, "--urls", "1000")
		dedup.Stdin = strings.NewReader("http://a.test/\n")
		if err := dedup.Run(); err != nil {
			t.Fatal(err, dedup.Stderr)
		}
		for name, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, filepath.Join(dir, "dedup.json"): 0o600} {
			if info, err := os.Lstat(name); err != nil || info.Mode() != want {
				t.Errorf("%s: %v (%v), want %v", name, info.Mode(), err, want)
			}
		}
	})
}

// underUmask returns a command that starts the program with a umask.
func underUmask(t *testing.T, umask, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `umask "$0"; exec "$@"`, umask, program}, args...)...)
	cmd.Stderr = new(strings.Builder)
	return cmd
}

// firstMode waits until one of the named files exists. It returns an error if this file
// does not have the wanted mode.
func firstMode(ended <-chan struct{}, want fs.FileMode, names ...string) error {
	for {
		for _, name := range names {
			if info, err := os.Lstat(name); err == nil {
				if info.Mode() != want {
					return fmt.Errorf("%s was created with mode %v, want %v", name, info.Mode(), want)
				}
				return nil
			}
		}
		select {
		case <-ended:
			return fmt.Errorf("the crawl ended before any of %q existed", names)
		case <-time.After(100 * time.Microsecond):
		}
	}
}
