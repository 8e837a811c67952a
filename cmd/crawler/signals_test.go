package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSignalsEndCommands: two signals end each command that waits for input which never comes: a
// config file, a page or seeds in a pipe, stdin, or a server that does not answer.
func TestSignalsEndCommands(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stalled, err := net.Listen("tcp", "127.0.0.1:0") // accepts no connection
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stalled.Close() })
	for _, line := range []string{
		"crawl --config PIPE --dir d http://a.test/", "config --config PIPE http://a.test/", "try --config PIPE page.html",
		"try PIPE --text", "try - --text", "try http://STALLED/ --text --timeout 1h --allow-private",
		"crawl --seeds PIPE --dir d", "crawl --seeds - --dir d", "crawl --dir d --redis redis://STALLED --name x http://a.test/",
		"crawl --dir d --redis redis://127.0.0.1:1 --redis-password-file PIPE --name x http://a.test/",
		"dedup", "status --redis redis://STALLED --name x",
		"crawl --dir d --allow-private --delay 0 --timeout 1h http://STALLED/",
	} {
		t.Run(strings.ReplaceAll(line, "/", "|"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pipe := filepath.Join(dir, "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			text := strings.NewReplacer("PIPE", pipe, "STALLED", stalled.Addr().String()).Replace(line)
			cmd := exec.Command(self, strings.Fields(text)...)
			cmd.Args[0], cmd.Dir = "crawler", dir
			name, value := smallFilter()
			cmd.Env = append(os.Environ(), name+"="+value, "HOME="+dir)
			if _, err := cmd.StdinPipe(); err != nil { // without a writer
				t.Fatal(err)
			}
			var output strings.Builder
			cmd.Stdout, cmd.Stderr = &output, &output
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				_ = cmd.Wait() // the exit code depends on when the signal comes
				close(ended)
			}()
			const signals, steps = 2, 120 // a loaded machine needs seconds; without an end the command would wait for ever
			for sent := range signals + steps {
				select {
				case <-ended:
					if sent == 0 {
						t.Errorf("%s ended without a signal: %s", line, &output)
					}
					return
				case <-time.After(500 * time.Millisecond):
				}
				if sent < signals {
					_ = cmd.Process.Signal(syscall.SIGTERM)
				}
			}
			_ = cmd.Process.Kill()
			t.Errorf("%s does not end within a minute of the second signal", line)
		})
	}
}
