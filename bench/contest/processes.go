package contest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Program makes the command that runs a program with arguments.
type Program func(ctx context.Context, args ...string) *exec.Cmd

// What a program is asked to do besides crawling: Serve, and Tokenizing.
const (
	ServeCommand = "site"
	LoopCommand  = "loop"
)

// HostConcurrency is how much a crawler asks a host at once that has no delay.
const HostConcurrency = 16

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

// Rate returns pages a second.
func (t Took) Rate() float64 { return float64(t.Pages) / max(t.Seconds, 1e-9) }

// PerPage returns the processor time for a page, in µs.
func (t Took) PerPage() float64 {
	return float64(t.CPU.Nanoseconds()) / 1e3 / float64(max(t.Pages, 1))
}

// Used notes what a process that ended took of the machine.
func (t *Took) Used(cmd *exec.Cmd) {
	t.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Resident = resident(cmd.ProcessState)
}

// Loop has a process of its own crawl a site without promises: the program's
// subcommand that prints what it Took.
func (run Program) Loop(ctx context.Context, order Order, command ...string) (took Took, err error) {
	text, err := json.Marshal(order)
	if err != nil {
		return took, err
	}
	cmd := run(ctx, append(command, string(text))...)
	answer, err := cmd.Output()
	if err != nil {
		return took, said("the loop", err)
	}
	if err := json.Unmarshal(answer, &took); err != nil {
		return took, fmt.Errorf("the loop answered %q: %w", answer, err)
	}
	took.Used(cmd)
	return took, nil
}

// Crawl has a crawler crawl a site without delay, below dir and with more flags.
// Its time is that of the whole process.
func (run Program) Crawl(ctx context.Context, place Place, dir string, flags ...string) (took Took, err error) {
	dir = filepath.Join(dir, "bench.crawl")
	args := append([]string{"crawl", "--dir", dir, "--delay", "0", "--host-concurrency", strconv.Itoa(HostConcurrency)}, flags...)
	cmd := run(ctx, append(args, place.Arguments()...)...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return took, fmt.Errorf("crawl: %w\n%s", err, complaints.Bytes())
	}
	took.Seconds = time.Since(began).Seconds()
	took.Used(cmd)
	took.Pages, err = countPages(filepath.Join(dir, "pages.jsonl"))
	return took, err
}

// Arguments are what has a crawler crawl the place.
func (p Place) Arguments() []string {
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
	for records := json.NewDecoder(bufio.NewReader(file)); ; {
		var record struct {
			Status      int    `json:"status"`
			ContentType string `json:"content_type"`
		}
		switch err := records.Decode(&record); {
		case errors.Is(err, io.EOF):
			return pages, nil
		case err != nil:
			return pages, fmt.Errorf("%s: %w", name, err)
		case record.Status == 200 && record.ContentType == "text/html":
			pages++
		}
	}
}

// said adds to the error of a process what it wrote to stderr.
func said(what string, err error) error {
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%s: %w\n%s", what, err, ended.Stderr)
	}
	return fmt.Errorf("%s: %w", what, err)
}
