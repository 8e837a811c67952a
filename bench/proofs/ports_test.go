//go:build linux

package proofs

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bloomfrontier/crawler/crawl/report"
)

// insideNamespace is an environment variable of the process that TestPortsShort starts.
const insideNamespace = "CRAWLER_PROOF_PORTS"

// TestPortsShort crawls hosts that answer after 300 ms, on a machine with only 200 ports
// for connections. The crawl must fetch every page, and its report must name the machine
// as a limit.
func TestPortsShort(t *testing.T) {
	t.Parallel()
	if os.Getenv(insideNamespace) == "" {
		rerunInNamespace(t)
		return
	}
	raiseLoopback(t)
	const ports = "/proc/sys/net/ipv4/ip_local_port_range"
	if err := os.WriteFile(ports, []byte("40000 40199"), 0); err != nil {
		t.Fatal(err)
	}
	web := serveNamed(t, sized(400, 5000))
	web.late = 300 * time.Millisecond
	c := newCrawl(t, web.url(0), "--scope", "any", "--delay", "100ms", "--domain-rate", "0", "--concurrency", "1000", "--dns", web.names.Addr,
		"--allow-net", "127.0.0.1/32")
	began := time.Now()
	c.finish()
	share := web.judge(t, c, report.Machine)
	figure(t, "ports", "200; they limited %.0f %% of a run of %v", 100*share, time.Since(began).Round(100*time.Millisecond))
}

// rerunInNamespace runs the test in another process, which has its own network
// namespace, so that other processes keep their ports.
func rerunInNamespace(t *testing.T) {
	t.Helper()
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v"}
	cmd := exec.CommandContext(t.Context(), os.Args[0], append(args, "-proof="+strconv.FormatBool(*proof))...)
	cmd.Env = append(os.Environ(), insideNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("not allowed to make a network namespace: ", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "=== ATTR  TestPortsShort "); ok && name == "" {
			key, text, _ := strings.Cut(value, " ")
			t.Attr(key, text)
		}
	}
}

// raiseLoopback brings up the loopback interface of a new network namespace.
func raiseLoopback(t *testing.T) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatal(err)
	}
}
