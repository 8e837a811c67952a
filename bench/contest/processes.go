package contest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Program makes the command that runs a program with arguments.
type Program func(ctx context.Context, args ...string) *exec.Cmd

// Self makes commands of the program that runs. Its main function, or TestMain, must call Part.
func Self(ctx context.Context, args ...string) *exec.Cmd {
	program, err := os.Executable()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Err = errors.Join(cmd.Err, err)
	return cmd
}

// Binary returns the Program in a file.
func Binary(name string) Program {
	return func(ctx context.Context, args ...string) *exec.Cmd { return exec.CommandContext(ctx, name, args...) }
}

// The commands of Part: siteCommand serves a site, and BareLoop is the bare loop with
// html.Tokenizer as the parser of links.
const (
	siteCommand = "site"
	BareLoop    = "loop"
)

// A Crawl crawls as an Order says.
type Crawl func(ctx context.Context, order Order) (Took, error)

// Part runs the part of a comparison for which this process was started: it serves a site, or
// crawls with the bare loop or one of the functions in more. The arguments are those of the
// process. If they name no part, Part does nothing and returns false.
func Part(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer, more map[string]Crawl) (is bool, err error) {
	if len(args) != 2 {
		return false, nil
	}
	crawl := more[args[0]]
	switch args[0] {
	case siteCommand:
		return true, serve(ctx, args[1], stdin, stdout)
	case BareLoop:
		crawl = func(ctx context.Context, order Order) (Took, error) { return Loop(ctx, order, tokens) }
	}
	if crawl == nil {
		return false, nil
	}
	return true, obey(ctx, args[1], stdout, crawl)
}

// HostConcurrency is the maximum number of concurrent requests to one host in Program.Crawl.
const HostConcurrency = 16

// Took is the result of a crawl and the resources that it took.
type Took struct {
	Pages    uint64
	Seconds  float64
	CPU      time.Duration // of the process
	Resident uint64        // maximum, in bytes; 0 if this system does not report it
	GC       float64       // share of the processor time that garbage collection took; 0 after Program.Crawl
}

// Rate returns the pages per second.
func (t Took) Rate() float64 { return float64(t.Pages) / max(t.Seconds, 1e-9) }

// PerPage returns the processor time per page, in µs.
func (t Took) PerPage() float64 {
	return float64(t.CPU.Nanoseconds()) / 1e3 / float64(max(t.Pages, 1))
}

// Used sets CPU and Resident to the resources that the process of cmd took. The process must
// have ended.
func (t *Took) Used(cmd *exec.Cmd) {
	t.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Resident = resident(cmd.ProcessState)
}

// resident returns the maximum resident memory of a process that has ended, in bytes. It
// returns 0 on systems other than Linux, because the unit of Maxrss differs between systems.
func resident(state *os.ProcessState) uint64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok || runtime.GOOS != "linux" {
		return 0
	}
	return uint64(usage.Maxrss) << 10 // Linux counts KiB
}

// Loop runs a loop (see Part) in another process and returns the result that the process prints.
func (run Program) Loop(ctx context.Context, name string, order Order) (took Took, err error) {
	text, err := json.Marshal(order)
	if err != nil {
		return took, err
	}
	cmd := run(ctx, name, string(text))
	answer, err := output(cmd)
	if err != nil {
		return took, fmt.Errorf("the loop: %w", err)
	}
	if err := json.Unmarshal(answer, &took); err != nil {
		return took, fmt.Errorf("the loop answered %q: %w", answer, err)
	}
	took.Used(cmd)
	return took, nil
}

// Crawl runs the crawler on a site, without delay and with additional flags. The crawl
// directory is below dir. Took.Seconds is the time of the whole process.
func (run Program) Crawl(ctx context.Context, endpoint Endpoint, dir string, flags ...string) (took Took, err error) {
	dir = filepath.Join(dir, "bench.crawl")
	args := append([]string{"crawl", "--dir", dir, "--delay", "0", "--host-concurrency", strconv.Itoa(HostConcurrency)}, flags...)
	cmd := run(ctx, append(args, endpoint.Arguments()...)...)
	began := time.Now()
	if _, err := output(cmd); err != nil {
		return took, fmt.Errorf("crawl: %w", err)
	}
	took.Seconds = time.Since(began).Seconds()
	took.Used(cmd)
	took.Pages, err = countPages(filepath.Join(dir, "pages.jsonl"))
	return took, err
}

// Arguments returns the arguments with which a crawler crawls the site.
func (p Endpoint) Arguments() []string {
	args := []string{"--allow-private"}
	if p.Any {
		args = append(args, "--scope", "any", "--connect-to", "*="+p.Addr)
	}
	return append(args, p.Seeds...)
}

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

// output runs a process and returns its stdout. An error contains its stderr.
func output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w\n%s", err, ended.Stderr)
	}
	return out, err
}
