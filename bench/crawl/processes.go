package crawl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bloomfrontier/crawler/bench/report"
)

// How the crawler asks: as much at once as suits a site without delay.
const (
	hostConcurrency = 16
	hostsAtOnce     = 64
)

// Took is what a crawl took.
type Took struct {
	Pages    uint64
	Seconds  float64
	CPU      time.Duration // of the process
	Resident uint64        // bytes, at most; 0: not known here

	// Only of crawls that end with their time.
	Later float64 // pages a second in the second half
	GC    float64 // share of garbage collection in the processor time
}

func (t Took) rate() float64 { return float64(t.Pages) / max(t.Seconds, 1e-9) }

// perPage returns the processor time for a page, in µs.
func (t Took) perPage() float64 {
	return float64(t.CPU.Nanoseconds()) / 1e3 / float64(max(t.Pages, 1))
}

func (t Took) memory() report.Cell {
	if t.Resident == 0 {
		return report.Words("–")
	}
	return report.Fixed(float64(t.Resident)/(1<<20), 0)
}

// used notes what a process that ended took of the machine.
func (t *Took) used(cmd *exec.Cmd) {
	t.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Resident = resident(cmd.ProcessState)
}

// loop has a process of its own crawl a place without promises.
func (run Program) loop(ctx context.Context, what Order) (took Took, err error) {
	order, err := json.Marshal(what)
	if err != nil {
		return took, err
	}
	cmd := run(ctx, "bench", LoopCommand, string(order))
	answer, err := cmd.Output()
	if err != nil {
		return took, said("the loop", err)
	}
	if err := json.Unmarshal(answer, &took); err != nil {
		return took, fmt.Errorf("the loop answered %q: %w", answer, err)
	}
	took.used(cmd)
	return took, nil
}

// crawl has a crawler crawl a place, and returns the processor time of its
// stages as well.
func (c *Config) crawl(ctx context.Context, place Place) (took Took, times map[string]time.Duration, err error) {
	temp, err := os.MkdirTemp(c.Dir, "crawl-")
	if err != nil {
		return took, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	dir, profile := filepath.Join(temp, "bench.crawl"), filepath.Join(temp, "cpu.pprof")
	args := []string{"crawl", "--dir", dir, "--cpu-profile", profile, "--delay", "0", "--log-level", "error",
		"--concurrency", strconv.Itoa(hostsAtOnce), "--host-concurrency", strconv.Itoa(hostConcurrency)}
	cmd := c.Program(ctx, append(args, place.arguments()...)...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return took, nil, fmt.Errorf("crawl: %w\n%s", err, complaints.Bytes())
	}
	took.Seconds = time.Since(began).Seconds()
	took.used(cmd)
	if took.Pages, err = countPages(filepath.Join(dir, "pages.jsonl")); err != nil {
		return took, nil, err
	}
	written, err := os.Open(profile)
	if err != nil {
		return took, nil, err
	}
	defer written.Close()
	times, err = stageTimes(written)
	return took, times, err
}

// arguments are what has a crawler crawl the place.
func (p Place) arguments() []string {
	args := []string{"--allow-private"}
	if p.Any {
		args = append(args, "--scope", "any", "--connect-to", "*="+p.Addr)
	}
	return append(args, p.Seeds...)
}

// countPages counts the records of HTML pages.
func countPages(name string) (pages uint64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var record struct {
			Status      int    `json:"status"`
			ContentType string `json:"content_type"`
		}
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return pages, fmt.Errorf("%s: %w", name, err)
		}
		if record.Status == 200 && record.ContentType == "text/html" {
			pages++
		}
	}
	return pages, lines.Err()
}

// said adds to the error of a process what it wrote to stderr.
func said(what string, err error) error {
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%s: %w\n%s", what, err, ended.Stderr)
	}
	return fmt.Errorf("%s: %w", what, err)
}
