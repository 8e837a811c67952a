package dedup

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// points are the crash points at which the child process can kill itself.
var points = []string{"printed", "half", "remembered", "half saved", "saved"}

// history describes several runs, one after another, with the same directory. The input
// of each run is the beginning of the same list of URLs.
type history struct {
	dir        string
	settings   Settings
	remembered int // position in the list at which the last run began to print; later runs must not begin earlier
	printed    int // the furthest position in the list that a run reached
}

// TestKilledLosesNothing kills runs at every point and at random moments. The next run
// must continue where the output ended, or at the beginning of the group that was being
// printed at the kill. So nothing is lost.
func TestKilledLosesNothing(t *testing.T) {
	rnd := random(t)
	histories := 1
	if *proof {
		histories = 25
	}
	for range histories {
		// The filter grows. It has a false positive once in some million runs of this test.
		for _, settings := range []Settings{{URLs: 1000, FPR: 1e-12}, exact} {
			(&history{dir: filepath.Join(t.TempDir(), "seen"), settings: settings}).live(t, rnd)
			if t.Failed() {
				return
			}
		}
	}
}

// live kills some runs, each with more URLs than the run before. It lets the last run
// finish.
func (h *history) live(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	const randomKills = 12
	n, killedAt := 0, make(map[string]int)
	for i := range len(points) + randomKills {
		at := fmt.Sprintf("%s:%d", points[i%len(points)], 1+i/len(points)*rnd.IntN(4))
		after := time.Duration(0)
		if i >= len(points) && rnd.IntN(2) == 0 {
			at, after = "-", time.Duration(rnd.Int64N(int64(60*time.Millisecond)))
		}
		n += 3000
		if h.run(t, rnd, n, at, after) {
			killedAt[strings.Split(at, ":")[0]]++
		}
	}
	if h.run(t, rnd, n, "-", 0) {
		t.Fatal("the last run was killed, but not by the test")
	}
	if h.printed != n {
		t.Errorf("%v: %d of %d URLs were printed", h.settings, h.printed, n)
	}
	t.Logf("%v: killed at %v", h.settings, killedAt)
	for _, point := range points {
		if saves := strings.HasSuffix(point, "saved"); killedAt[point] == 0 && !(saves && h.settings.Exact) {
			t.Errorf("%v: no run was killed at %q", h.settings, point)
		}
	}
}

// run starts a run with n URLs. It kills the run at a point or after a time, and reports
// whether the run was killed before its end.
func (h *history) run(t *testing.T, rnd *rand.Rand, n int, at string, after time.Duration) (killed bool) {
	t.Helper()
	out, err := os.Create(h.dir + ".out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := childCommand(t, at, childConfig{Dir: h.dir, Settings: h.settings, Interval: 2000})
	cmd.Stdout = out
	feed, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if after > 0 {
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	for in := urls(n); in != ""; {
		size := min(len(in), 1+rnd.IntN(16<<10))
		if _, err := io.WriteString(feed, in[:size]); err != nil {
			break // the process has been killed
		}
		in = in[size:]
	}
	feed.Close()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		killed = exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	}
	if err != nil && !killed {
		t.Fatalf("killed at %s: the run ended with %v:\n%s", at, err, cmd.Stderr)
	}
	h.check(t, string(read(t, out.Name())))
	return killed
}

// check compares the output of a run with the list.
func (h *history) check(t *testing.T, text string) {
	t.Helper()
	text = text[:strings.LastIndexByte(text, '\n')+1] // a kill might have cut off the last line
	if text == "" {
		return
	}
	var begin int
	if _, err := fmt.Sscanf(text, urlFormat, new(int), &begin, new(int)); err != nil {
		t.Fatalf("printed %.100q: %v", text, err)
	}
	count := strings.Count(text, "\n")
	if whole := urls(begin + count); text != whole[len(whole)-len(text):] {
		t.Fatalf("the %d lines printed are not those from URL %d on", count, begin)
	}
	if begin < h.remembered || begin > h.printed || h.printed-begin > groupLines {
		t.Fatalf("printed from URL %d on; %d were remembered and %d printed", begin, h.remembered, h.printed)
	}
	h.remembered, h.printed = begin, max(h.printed, begin+count)
}

// TestKillRepeatsOnlyWhatWasNotRemembered: if a run is killed after it has remembered a
// group, the next run does not repeat the group. If the run is killed earlier, the next
// run prints the group again.
func TestKillRepeatsOnlyWhatWasNotRemembered(t *testing.T) {
	for point, again := range map[string]bool{"printed": true, "half": true, "remembered": false} {
		dir := t.TempDir()
		cmd := childCommand(t, point+":1", childConfig{Dir: dir, Settings: exact})
		all := urls(100)
		cmd.Stdin = strings.NewReader(all)
		out, err := cmd.Output()
		if err == nil || string(out) != all {
			t.Fatalf("%s: %v, printed %d bytes, want a kill after %d", point, err, len(out), len(all))
		}
		want := ""
		if again {
			want = all
		}
		if got := mustDedup(t, all, stored(t, dir)); got.out != want {
			t.Errorf("killed when %s: the next run prints %d bytes, want %d", point, len(got.out), len(want))
		}
	}
}

// TestReaderGoesAway: the process ends when the reader of its output closes the pipe.
func TestReaderGoesAway(t *testing.T) {
	dir := t.TempDir()
	all := urls(100_000)
	cmd := childCommand(t, "-", childConfig{Dir: dir, Settings: standard})
	cmd.Stdin = strings.NewReader(all)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE {
		t.Errorf("it ended with %v, want a death by SIGPIPE:\n%s", err, cmd.Stderr)
	}
	if got := mustDedup(t, all, stored(t, dir)); !strings.HasSuffix(all, got.out) || got.out == "" {
		t.Errorf("the next run printed %d bytes that are no end of the input", len(got.out))
	}
}
