package dedup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

func TestLinesInAndOut(t *testing.T) {
	long := "http://a.test/" + strings.Repeat("x", maxLine)
	for name, c := range map[string]struct {
		args      []string
		in, out   string
		malformed int
	}{
		"order":                {nil, "http://b.test/\nhttp://a.test/\nhttp://b.test/\nhttp://c.test/\n", "http://b.test/\nhttp://a.test/\nhttp://c.test/\n", 0},
		"spellings are one":    {nil, "HTTP://A.test:80/x/../y#f\nhttp://a.test/y\n", "HTTP://A.test:80/x/../y#f\n", 0},
		"canonical":            {[]string{"--print=canonical"}, "HTTP://A.test:80/x/../y#f\n http://a.test/y\t\n", "http://a.test/y\n", 0},
		"no end":               {nil, "http://a.test/\nhttp://b.test/", "http://a.test/\nhttp://b.test/\n", 0},
		"CRLF":                 {nil, "http://a.test/\r\nhttp://a.test/\n", "http://a.test/\r\n", 0},
		"byte order mark":      {nil, "\ufeffhttp://a.test/\nhttp://a.test/\n", "http://a.test/\n", 0},
		"empty lines":          {nil, "\n \t\n\r\nhttp://a.test/\n\n", "http://a.test/\n", 0},
		"malformed":            {nil, "http://[/\nmailto:a@b.test\na.test\n#\nhttp://a.test/\nhttp://a.test/\xff\n", "http://a.test/\n", 5},
		"zero bytes":           {[]string{"-0"}, "http://a.test/\x00http://b.test/\n\x00http://a.test/", "http://a.test/\x00http://b.test/\n\x00", 0},
		"too long":             {nil, long + "\nhttp://a.test/\n" + long, "http://a.test/\n", 2},
		"parameters":           {nil, "http://a.test/?utm_source=1\nhttp://a.test/\n", "http://a.test/?utm_source=1\n", 0},
		"parameters kept":      {[]string{"--keep-param=utm_*"}, "http://a.test/?utm_source=1\nhttp://a.test/\n", "http://a.test/?utm_source=1\nhttp://a.test/\n", 0},
		"parameters stripped":  {[]string{"--strip-param=q"}, "http://a.test/?q=1\nhttp://a.test/?q=2\n", "http://a.test/?q=1\n", 0},
		"order of a query":     {[]string{"--sort-query"}, "http://a.test/?b=1&a=1\nhttp://a.test/?a=1&b=1\n", "http://a.test/?b=1&a=1\n", 0},
		"nothing":              {nil, "", "", 0},
		"exact":                {[]string{"--exact"}, "http://a.test/\nhttp://a.test\nhttp://b.test/\n", "http://a.test/\nhttp://b.test/\n", 0},
		"few bits, small rate": {[]string{"--urls=1", "--fpr=1e-9"}, urls(3000) + urls(3000), urls(3000), 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustDedup(t, c.in, c.args...)
			if got.out != c.out {
				t.Errorf("printed %.200q, want %.200q", got.out, c.out)
			}
			if want := fmt.Sprintf("%d malformed", c.malformed); !strings.Contains(got.err, want) {
				t.Errorf("the report has not %q:\n%s", want, got.err)
			}
		})
	}
}

func TestReportOfMalformedLines(t *testing.T) {
	var in strings.Builder
	for i := range 25 {
		fmt.Fprintf(&in, "http://a.test/%d\nhttp://bad host/\n", i)
	}
	got := mustDedup(t, in.String())
	if n := strings.Count(got.err, "malformed URL"); n != 10 {
		t.Errorf("%d lines are reported one by one, want 10", n)
	}
	for _, want := range []string{"line 2: ", "line 20: ", "and 15 more", "50 lines", "25 new, 0 seen, 25 malformed"} {
		if !strings.Contains(got.err, want) {
			t.Errorf("the report has not %q:\n%s", want, got.err)
		}
	}
}

func TestFaultsOfFlags(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"--print=x"}, []string{"--print", "want input or canonical"}},
		{[]string{"--exact", "--urls=1G"}, []string{"--exact has no filter"}},
		{[]string{"--urls=100T"}, []string{"--urls", "want a whole number from 1 to 1.09T"}},
		{[]string{"--fpr=1e-15"}, []string{"--fpr", "want a probability from 1e-12"}},
		{[]string{"--urls=-1"}, []string{"want a whole number"}},
		{[]string{"--strip-param=a*b"}, []string{"a*b"}},
		{[]string{"file"}, []string{`"file" is an argument, want URLs on stdin`}},
	} {
		_, err := dedup(t.Context(), "", c.args...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %q", c.args, err, want)
			}
		}
	}
}

// TestRandomAgainstMap: the answers are the same as those of a map. They do not depend on
// the pieces in which the input is read.
func TestRandomAgainstMap(t *testing.T) {
	rnd := random(t)
	form, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	runs := 30
	if *proof {
		runs = 3000
	}
	for range runs {
		end := byte('\n')
		var args []string
		if rnd.IntN(2) == 0 {
			end, args = 0, append(args, "-0")
		}
		if rnd.IntN(2) == 0 {
			args = append(args, "--exact")
		}
		var in, want bytes.Buffer
		known := make(map[string]bool)
		for range rnd.IntN(400) {
			line := randomLine(rnd)
			in.WriteString(line)
			in.WriteByte(end)
			if url, err := form.Parse(line); err == nil && !known[url.String()] && len(line) <= maxLine {
				known[url.String()] = true
				want.WriteString(line)
				want.WriteByte(end)
			}
		}
		var out bytes.Buffer
		command := Command()
		command.SetIn(&choppy{&in, rnd})
		command.SetOut(&out)
		command.SetErr(io.Discard)
		command.SetArgs(args)
		if err := command.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if out.String() != want.String() {
			t.Fatalf("%v: printed %.300q, want %.300q", args, out.String(), want.String())
		}
	}
}

func randomLine(rnd *rand.Rand) string {
	switch rnd.IntN(20) {
	case 0:
		return ""
	case 1:
		return "no URL"
	case 2:
		return "http://a.test/" + strings.Repeat("y", rnd.IntN(2*maxLine))
	case 3:
		return fmt.Sprintf("HTTPS://A.test/%%7e%d?utm_source=%d", rnd.IntN(50), rnd.IntN(9))
	}
	return fmt.Sprintf("https://a.test/~%d", rnd.IntN(200))
}

// choppy reads in pieces of random length. It returns io.EOF with the last piece or after
// it.
type choppy struct {
	from *bytes.Buffer
	rnd  *rand.Rand
}

func (c *choppy) Read(p []byte) (int, error) {
	n, err := c.from.Read(p[:min(len(p), c.rnd.IntN(1<<c.rnd.IntN(18)))])
	if c.from.Len() == 0 && c.rnd.IntN(2) == 0 {
		err = io.EOF
	} else if err == io.EOF && n == 0 && c.from.Len() > 0 {
		err = nil
	}
	return n, err
}

// TestAnswersAtOnce: each line of a pipe that stays open is answered before the next
// line is read.
func TestAnswersAtOnce(t *testing.T) {
	for _, args := range [][]string{nil, {"--dir", t.TempDir()}} {
		ask, questions := io.Pipe()
		answers, tell := io.Pipe()
		command := Command()
		command.SetIn(ask)
		command.SetOut(tell)
		command.SetErr(io.Discard)
		command.SetArgs(args)
		ended := make(chan error, 1)
		go func() { ended <- command.ExecuteContext(t.Context()) }()
		lines := bufio.NewReader(answers)
		for i := range 20 {
			line := fmt.Sprintf("http://a.test/%d\n", i)
			if _, err := io.WriteString(questions, line[:5]); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(questions, line[5:]); err != nil {
				t.Fatal(err)
			}
			if got, err := lines.ReadString('\n'); got != line || err != nil {
				t.Fatalf("the answer is %q, %v, want %q", got, err, line)
			}
		}
		questions.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestStopsWithContext: a run ends when its context ends, even if the input sends nothing
// and stays open.
func TestStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ask, questions := io.Pipe()
	answers, tell := io.Pipe()
	dir := t.TempDir()
	command := Command()
	command.SetIn(ask)
	command.SetOut(tell)
	var report bytes.Buffer
	command.SetErr(&report)
	command.SetArgs([]string{"--dir", dir})
	command.SilenceUsage = true
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	fmt.Fprint(questions, "http://a.test/\nhttp://b.te")
	if line, err := bufio.NewReader(answers).ReadString('\n'); err != nil || line != "http://a.test/\n" {
		t.Fatal(line, err)
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v, want that it was canceled", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for its input")
	}
	if !strings.Contains(report.String(), "1 new") {
		t.Errorf("no summary:\n%s", &report)
	}
	if got := mustDedup(t, "http://a.test/\nhttp://b.test/\n", "--dir", dir); got.out != "http://b.test/\n" {
		t.Errorf("the next run printed %q, want what the first did not", got.out)
	}
}

// TestInputFails: an error of the input ends the run, after the lines before the error are
// answered.
func TestInputFails(t *testing.T) {
	broken := errors.New("broken")
	command := Command()
	command.SetIn(io.MultiReader(strings.NewReader("http://a.test/\nhttp://a.tes"), failing{broken}))
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(io.Discard)
	command.SetArgs(nil)
	command.SilenceUsage = true
	if err := command.ExecuteContext(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("it ended with %v, want the reader's error after line 1", err)
	}
	if out.String() != "http://a.test/\n" {
		t.Errorf("printed %q: a line without its end may be half a line", &out)
	}
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error)  { return 0, f.error }
func (f failing) Write([]byte) (int, error) { return 0, f.error }

func TestLineDoesNotAllocate(t *testing.T) {
	s := &stream{faults: io.Discard, end: '\n', out: io.Discard, grew: func(uint64) {}}
	var err error
	if s.canon, err = canon.New(canon.Options{}); err != nil {
		t.Fatal(err)
	}
	if s.seen, err = (settings{URLs: 100_000, FPR: 1e-6}).newSeen(); err != nil {
		t.Fatal(err)
	}
	in := []byte(urls(1000))
	s.lines(in)
	clear(in[:0])
	if n := testing.AllocsPerRun(10, func() { s.lines(in); _ = s.flush() }); n > 0 {
		t.Errorf("1000 lines allocate %v times, want 0", n)
	}
}

func BenchmarkLines(b *testing.B) {
	const n = 200_000
	in := urls(n)
	for _, args := range [][]string{nil, {"--exact"}, {"--dir"}} {
		name := "seen=filter"
		if len(args) > 0 {
			name = "seen=" + strings.TrimPrefix(args[0], "--")
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				args := args
				if len(args) > 0 && args[0] == "--dir" {
					args = []string{"--dir", b.TempDir()}
				}
				if r, err := dedup(b.Context(), in, args...); err != nil || len(r.out) != len(in) {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
