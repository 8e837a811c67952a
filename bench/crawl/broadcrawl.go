package crawl

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/bench/contest"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
)

// broadTook is the result of a broad crawl, and the resources that it took.
type broadTook struct {
	contest.Took
	trips    float64  // round trips to the store per page
	redisCPU float64  // processor time of Redis per page, in µs
	finished uint64   // URLs with an outcome after a request, if Pages counts only answers of 2xx
	html     uint64   // answers with a status of 2xx
	hosts    float64  // hosts with queued URLs at the end
	limits   []string // what limited the crawl: up to three limits, the one that applied longest first
}

// crawl runs the crawler on a site for the given duration, with more flags.
func (c *BroadConfig) crawl(ctx context.Context, site contest.Endpoint, what broadCase, duration time.Duration, more ...string) (took broadTook, err error) {
	temp, err := os.MkdirTemp(c.Dir, "crawl-")
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	args := []string{"crawl", "--dir", filepath.Join(temp, "bench.crawl"), "--admin", "127.0.0.1:0", "--log-level", "error",
		"--delay", broadDelay.String(), "--domain-rate", "0", "--concurrency", what.concurrency}
	if site.CA != "" {
		ca := filepath.Join(temp, "ca.pem")
		if err := os.WriteFile(ca, []byte(site.CA), 0o600); err != nil {
			return took, err
		}
		args = append(args, "--ca", ca)
	}
	args = append(args, more...)
	cmd := c.Crawler(ctx, append(args, site.Arguments()...)...)
	if what.subject == onRedis {
		err = c.crawlOnRedis(ctx, cmd, &took, temp, duration)
	} else {
		err = took.crawl(ctx, cmd, temp, duration)
	}
	return took, err
}

// crawlOnRedis runs the crawl of cmd in a Redis, and then removes the crawl from Redis.
func (c *BroadConfig) crawlOnRedis(ctx context.Context, cmd *exec.Cmd, took *broadTook, dir string, duration time.Duration) (err error) {
	server := c.Redis
	// The URL can contain a password. Other users can read arguments, but not the environment.
	cmd.Env = append(os.Environ(), "CRAWLER_REDIS="+server.URL, fmt.Sprintf("CRAWLER_NAME=bench-broad-%d", os.Getpid()))
	defer func() {
		remove := c.Crawler(context.WithoutCancel(ctx), "delete", "--yes")
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
	more := func(name string) float64 { return (after[name] - before[name]) / float64(max(took.Pages, 1)) }
	took.trips = more("total_reads_processed")
	took.redisCPU = 1e6 * (more("used_cpu_user") + more("used_cpu_sys"))
	return nil
}

// crawl runs a crawl below dir, reads its metrics when the time is over, and then
// interrupts the crawl. The time begins when the crawl serves its metrics. An error
// contains what the crawl printed.
func (t *broadTook) crawl(ctx context.Context, cmd *exec.Cmd, dir string, duration time.Duration) (err error) {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var said strings.Builder
	var result error
	serving, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for line, lines := "", bufio.NewReader(stderr); result == nil; {
			line, result = lines.ReadString('\n')
			said.WriteString(line)
			if _, addr, found := strings.Cut(line, "metrics on "); found {
				select {
				case serving <- strings.TrimSpace(addr):
				default: // the address is known
				}
			}
		}
		result = cmd.Wait()
	}()
	defer func() {
		_ = cmd.Process.Kill() // has an effect only after an error
		if <-ended; err != nil {
			err = fmt.Errorf("%w\n%s", err, &said)
		}
	}()
	var addr string
	select {
	case addr = <-serving:
	case <-ended:
		return errors.New("the crawl did not begin")
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	end, err := figuresAfter(ctx, addr, duration, ended)
	if err != nil {
		return err
	}
	t.Seconds = time.Since(began).Seconds()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("interrupt the crawl: %w", err)
	}
	if <-ended; cmd.ProcessState.ExitCode() != interrupted {
		return fmt.Errorf("the crawl did not end as an interrupted one does: %w", result)
	}
	t.Used(cmd)
	if seconds := end["process_cpu_seconds_total"]; seconds > 0 { // this time does not include the requests in flight at the end
		t.CPU = time.Duration(seconds * float64(time.Second))
	}
	t.Pages = uint64(end["crawler_finished_total"])
	t.html, t.hosts = uint64(end[`crawler_answers_total{status="2xx"}`]), end["crawler_hosts"]
	busy := end["go_cpu_classes_total_cpu_seconds_total"] - end["go_cpu_classes_idle_cpu_seconds_total"]
	t.GC = end["go_cpu_classes_gc_total_cpu_seconds_total"] / max(busy, 1e-9)
	t.trips = end["crawler_store_commits_total"] / float64(max(t.Pages, 1))
	return t.readReport(dir)
}

// interrupted is the exit code of a crawl that a signal stopped.
const interrupted = 130

// readReport reads the report of the crawl below dir.
func (t *broadTook) readReport(dir string) error {
	// The report is in the directory that --dir names, also if the crawl is in Redis.
	names, err := fs.Glob(os.DirFS(dir), "*/report.json")
	if err != nil || len(names) != 1 {
		return fmt.Errorf("the crawl left %d reports (%v), want 1", len(names), err)
	}
	name := filepath.Join(dir, names[0])
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var left struct {
		Limits []struct {
			Kind  string
			Share float64
		}
	}
	if err := json.Unmarshal(text, &left); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, limit := range left.Limits[:min(3, len(left.Limits))] {
		t.limits = append(t.limits, fmt.Sprintf("%s %.0f %%", limit.Kind, 100*limit.Share))
	}
	return nil
}

// figuresAfter waits for the given duration, and then reads the metrics of a crawl from
// addr. It returns the metrics that have no labels. If the crawl ends before, it returns
// an error.
func figuresAfter(ctx context.Context, addr string, duration time.Duration, ended <-chan struct{}) (map[string]float64, error) {
	select {
	case <-time.After(duration):
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-ended:
		return nil, errors.New("the crawl ended before its time")
	}
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
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil { // not a comment
			values[name] = value
		}
	}
	return values, lines.Err()
}
