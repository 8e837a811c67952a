package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestReadersOfKilledCrawl runs output and links again and again, while a crawl in the same directory is
// started and killed with SIGKILL at random moments. No command may fail.
func TestReadersOfKilledCrawl(t *testing.T) {
	t.Parallel()
	site := listen(t, func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // a web without end
			w.Header().Set("Content-Type", "text/html")
			for range 3 {
				fmt.Fprintf(w, `<a href="/%d">x</a>`, rand.Int64())
			}
		}))
	})
	dir := filepath.Join(t.TempDir(), "c.crawl")
	name, value := smallFilter()
	crawler := func(args ...string) *exec.Cmd {
		cmd := exec.Command("crawler", append(args, "--dir", dir)...)
		cmd.Env = append(os.Environ(), name+"="+value)
		return cmd
	}
	begin := func(more ...string) *exec.Cmd {
		return crawler(append([]string{"crawl", "--links", "--delay", "0", "--robots", "ignore", "--allow-private", "--quiet", "http://" + site + "/"}, more...)...)
	}
	if said, err := begin("--max-pages", "20").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	kills := 20
	if testing.Short() {
		kills = 8
	}
	over := make(chan struct{})
	var readers sync.WaitGroup
	for _, command := range []string{"output", "links"} {
		readers.Go(func() {
			for n := 0; ; n++ {
				cmd := crawler(command)
				cmd.Stdout = io.Discard
				if said, err := cmd.StderrPipe(); err != nil {
					t.Error(err)
				} else if err := cmd.Start(); err != nil {
					t.Error(err)
				} else {
					text, _ := io.ReadAll(said)
					if err := cmd.Wait(); err != nil {
						t.Errorf("%s, run %d: %v\n%s", command, n, err, text)
						return
					}
				}
				select {
				case <-over:
					t.Logf("%s: %d runs", command, n)
					return
				default:
				}
			}
		})
	}
	for range kills {
		cmd := begin()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(700 * time.Millisecond)) // so that the kill comes at any stage
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	close(over)
	readers.Wait()
}
