package crawl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bench/contest"
	"github.com/bloomfrontier/crawler/bench/sets"
)

// broadTook is the result of a broad crawl, and the resources that it took.
type broadTook struct {
	contest.Took
	all      uint64   // number of pages, including those of requests in flight at the end of the time
	trips    float64  // round trips to the store per page
	redisCPU float64  // processor time of Redis per page, in µs
	limits   []string // what limited the crawl; the longest limit comes first
}

// crawl runs the crawler on a site for the given duration.
func (c *BroadConfig) crawl(ctx context.Context, site contest.Endpoint, what broadCase, duration time.Duration) (took broadTook, err error) {
	temp, err := os.MkdirTemp(c.Dir, "crawl-")
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	args := []string{"crawl", "--dir", filepath.Join(temp, "bench.crawl"), "--admin", "127.0.0.1:0", "--log-level", "error",
		"--delay", broadDelay.String(), "--concurrency", what.concurrency}
	if site.CA != "" {
		ca := filepath.Join(temp, "ca.pem")
		if err := os.WriteFile(ca, []byte(site.CA), 0o600); err != nil {
			return took, err
		}
		args = append(args, "--ca", ca)
	}
	cmd := c.Program(ctx, append(args, site.Arguments()...)...)
	if what.subject == onRedis {
		err = c.crawlOnRedis(ctx, cmd, &took, temp, duration)
	} else {
		err = took.crawl(ctx, cmd, temp, duration)
	}
	return took, err
}

// crawlOnRedis runs the crawl of cmd in a Redis, and then removes the crawl from Redis.
func (c *BroadConfig) crawlOnRedis(ctx context.Context, cmd *exec.Cmd, took *broadTook, dir string, duration time.Duration) (err error) {
	server, err := c.Redis(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	// The URL can contain a password. Other users can read arguments, but not the environment.
	cmd.Env = append(os.Environ(), "CRAWLER_REDIS="+server.URL, fmt.Sprintf("CRAWLER_NAME=bench-broad-%d", os.Getpid()))
	defer func() {
		remove := c.Program(context.WithoutCancel(ctx), "delete", "--yes")
		remove.Env = cmd.Env
		if said, failed := remove.CombinedOutput(); failed != nil && err == nil {
			err = fmt.Errorf("remove the crawl from Redis: %w\n%s", failed, said)
		}
	}()
	before, err := sets.Info(ctx, server.Client)
	if err != nil {
		return err
	}
	if err := took.crawl(ctx, cmd, dir, duration); err != nil {
		return err
	}
	after, err := sets.Info(ctx, server.Client)
	if err != nil {
		return err
	}
	more := func(name string) float64 { return (after[name] - before[name]) / float64(max(took.all, 1)) }
	took.trips = more("total_reads_processed")
	took.redisCPU = 1e6 * (more("used_cpu_user") + more("used_cpu_sys"))
	return nil
}

// crawl runs a crawl below dir, reads its metrics after half of the time and at the end,
// and then interrupts the crawl. The time begins when the crawl serves its metrics.
func (t *broadTook) crawl(ctx context.Context, cmd *exec.Cmd, dir string, duration time.Duration) error {
	said := &complaints{serving: make(chan string, 1)}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	var result error
	go func() { defer close(ended); result = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill(); <-ended }() // has an effect only after an error
	var addr string
	select {
	case addr = <-said.serving:
	case <-ended:
		return fmt.Errorf("the crawl did not begin:\n%s", said)
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	var end figures
	half, err := figuresAt(ctx, addr, began.Add(duration/2), ended)
	if err == nil {
		end, err = figuresAt(ctx, addr, began.Add(duration), ended)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("interrupt the crawl: %w", err)
	}
	if <-ended; cmd.ProcessState.ExitCode() != interrupted {
		return fmt.Errorf("the crawl did not end as an interrupted one does: %w\n%s", result, said)
	}
	t.Used(cmd)
	if seconds := end.value["process_cpu_seconds_total"]; seconds > 0 { // this time does not include the requests in flight at the end
		t.CPU = time.Duration(seconds * float64(time.Second))
	}
	const finished = "crawler_finished_total"
	t.Pages, t.Seconds = uint64(end.value[finished]), end.at.Sub(began).Seconds()
	t.Later = (end.value[finished] - half.value[finished]) / end.at.Sub(half.at).Seconds()
	t.GC = shareOf(end.value["go_cpu_classes_gc_total_cpu_seconds_total"],
		end.value["go_cpu_classes_total_cpu_seconds_total"]-end.value["go_cpu_classes_idle_cpu_seconds_total"])
	t.trips = shareOf(end.value["crawler_store_commits_total"], end.value[finished])
	return t.readReport(dir)
}

// interrupted is the exit code of a crawl that a signal stopped.
const interrupted = 130

// readReport reads the report of the crawl below dir.
func (t *broadTook) readReport(dir string) error {
	var names []string
	for _, pattern := range []string{"*/report.json", "*/*/report.json"} { // of a crawl in a directory, or of a worker
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		names = append(names, found...)
	}
	if len(names) != 1 {
		return fmt.Errorf("the crawl left %d reports, want 1", len(names))
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		return err
	}
	var left struct {
		Run    struct{ Pages uint64 }
		Limits []struct {
			Kind  string
			Share float64
		}
	}
	if err := json.Unmarshal(text, &left); err != nil {
		return fmt.Errorf("%s: %w", names[0], err)
	}
	t.all = left.Run.Pages
	for _, limit := range left.Limits[:min(3, len(left.Limits))] {
		t.limits = append(t.limits, fmt.Sprintf("%s %.0f %%", limit.Kind, 100*limit.Share))
	}
	return nil
}

// shareOf returns part/whole, or 0 if whole is 0.
func shareOf(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// complaints collects the stderr of a crawl, and finds the address of the crawl's
// metrics in it.
type complaints struct {
	serving chan string // receives the address; has a buffer of one

	mu   sync.Mutex
	text bytes.Buffer
	told bool
}

var metricsAt = regexp.MustCompile(`metrics on (http://\S+)\n`)

func (c *complaints) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(p)
	if at := metricsAt.FindSubmatch(c.text.Bytes()); !c.told && at != nil {
		c.told = true
		c.serving <- string(at[1])
	}
	return len(p), nil
}

func (c *complaints) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// figures are the metrics of a crawl at one time, without those that have labels.
type figures struct {
	at    time.Time
	value map[string]float64
}

// figuresAt waits until a given time, and then reads the metrics of a crawl from addr.
// It returns an error if the crawl ends before that time.
func figuresAt(ctx context.Context, addr string, at time.Time, ended <-chan struct{}) (f figures, err error) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return f, ctx.Err()
	case <-ended:
		return f, errors.New("the crawl ended before its time")
	}
	f.value, err = scrape(ctx, addr)
	f.at = time.Now()
	return f, err
}

// scrape reads metrics from a URL, and returns those without labels.
func scrape(ctx context.Context, addr string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, addr, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", addr, response.Status)
	}
	values := make(map[string]float64)
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if name, text, isPair := strings.Cut(lines.Text(), " "); isPair && name != "#" {
			if value, err := strconv.ParseFloat(text, 64); err == nil {
				values[name] = value
			}
		}
	}
	return values, lines.Err()
}
