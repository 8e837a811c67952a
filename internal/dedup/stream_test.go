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
		cfg       Config
		in, out   string
		malformed uint64
	}{
		"order":               {Config{}, "http://b.test/\nhttp://a.test/\nhttp://b.test/\nhttp://c.test/\n", "http://b.test/\nhttp://a.test/\nhttp://c.test/\n", 0},
		"spellings are one":   {Config{}, "HTTP://A.test:80/x/../y#f\nhttp://a.test/y\n", "HTTP://A.test:80/x/../y#f\n", 0},
		"canonical":           {Config{Canonical: true}, "HTTP://A.test:80/x/../y#f\n http://a.test/y\t\n", "http://a.test/y\n", 0},
		"no end":              {Config{}, "http://a.test/\nhttp://b.test/", "http://a.test/\nhttp://b.test/\n", 0},
		"CRLF":                {Config{}, "http://a.test/\r\nhttp://a.test/\n", "http://a.test/\r\n", 0},
		"byte order mark":     {Config{}, "\ufeffhttp://a.test/\nhttp://a.test/\n", "http://a.test/\n", 0},
		"empty lines":         {Config{}, "\n \t\n\r\nhttp://a.test/\n\n", "http://a.test/\n", 0},
		"malformed":           {Config{}, "http://[/\nmailto:a@b.test\na.test\n#\nhttp://a.test/\nhttp://a.test/\xff\n", "http://a.test/\n", 5},
		"zero bytes":          {Config{Null: true}, "http://a.test/\x00http://b.test/\n\x00http://a.test/", "http://a.test/\x00http://b.test/\n\x00", 0},
		"too long":            {Config{}, long + "\nhttp://a.test/\n" + long, "http://a.test/\n", 2},
		"parameters":          {Config{}, "http://a.test/?utm_source=1\nhttp://a.test/\n", "http://a.test/?utm_source=1\n", 0},
		"parameters kept":     {Config{Canon: canon.Options{KeepParams: []string{"utm_*"}}}, "http://a.test/?utm_source=1\nhttp://a.test/\n", "http://a.test/?utm_source=1\nhttp://a.test/\n", 0},
		"parameters stripped": {Config{Canon: canon.Options{StripParams: []string{"q"}}}, "http://a.test/?q=1\nhttp://a.test/?q=2\n", "http://a.test/?q=1\n", 0},
		"order of a query":    {Config{Canon: canon.Options{SortQuery: true}}, "http://a.test/?b=1&a=1\nhttp://a.test/?a=1&b=1\n", "http://a.test/?b=1&a=1\n", 0},
		"nothing":             {Config{}, "", "", 0},
		"exact":               {Config{Settings: exact}, "http://a.test/\nhttp://a.test\nhttp://b.test/\n", "http://a.test/\nhttp://b.test/\n", 0},
		"raw":                 {Config{Settings: Settings{LineKey: KeyRaw}}, "a\n\nb\n a\na\n\xff\n\xff\n", "a\nb\n a\n\xff\n", 0},
		"JSON": {Config{Settings: Settings{LineKey: "json:data.id"}}, `{"data":{"id":"A","n":1}}` + "\n" + `{"data":{"n":2,"id":"\u0041"}}` + "\n" +
			`{"data":{"id":1}}` + "\n" + `{"data":{"id":"1"}}` + "\n" + `{"data": {"id" : 1 }}` + "\n" + " \n" +
			`{"data":{"id":null}}` + "\n" + `{"data":{"id":{}}}` + "\n" + `{"data":{}}` + "\n" + `{"data":3}` + "\n" + `{"data":{"id":1}` + "\n" + "null\n" + `{"data":{"id":"` + "\xff" + `"}}` + "\n",
			`{"data":{"id":"A","n":1}}` + "\n" + `{"data":{"id":1}}` + "\n" + `{"data":{"id":"1"}}` + "\n", 7},
		"digests": {Config{Settings: Settings{LineKey: KeySHA256}}, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  one\n" +
			"CA978112CA1BBDCAFAC231B39A23DC4DA786EFF8147C4E72B9807785AFEE48BB  two\na\nb\nb\n\n", // the digest of a
			"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  one\nb\n", 0},
		"few bits, small rate": {Config{Settings: Settings{URLs: 1, FPR: 1e-9}}, urls(3000) + urls(3000), urls(3000), 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustDedup(t, c.in, c.cfg)
			if got.out != c.out {
				t.Errorf("printed %.200q, want %.200q", got.out, c.out)
			}
			if got.Malformed != c.malformed {
				t.Errorf("%d malformed lines, want %d:\n%s", got.Malformed, c.malformed, got.faults)
			}
		})
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
		cfg := Config{Settings: standard}
		if rnd.IntN(2) == 0 {
			end, cfg.Null = 0, true
		}
		if rnd.IntN(2) == 0 {
			cfg.Settings = exact
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
		if _, err := Run(t.Context(), cfg, &choppy{&in, rnd}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		if out.String() != want.String() {
			t.Fatalf("%+v: printed %.300q, want %.300q", cfg, out.String(), want.String())
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
	for _, dir := range []string{"", t.TempDir()} {
		ask, questions := io.Pipe()
		answers, tell := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			_, err := Run(t.Context(), Config{Dir: dir, Settings: standard}, ask, tell, io.Discard)
			ended <- err
		}()
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
	var result *Result
	ended := make(chan error, 1)
	go func() {
		var err error
		result, err = Run(ctx, Config{Dir: dir, Settings: standard}, ask, tell, io.Discard)
		ended <- err
	}()
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
	if result == nil || result.New != 1 {
		t.Errorf("the result is %+v, want one new URL", result)
	}
	if got := mustDedup(t, "http://a.test/\nhttp://b.test/\n", stored(t, dir)); got.out != "http://b.test/\n" {
		t.Errorf("the next run printed %q, want what the first did not", got.out)
	}
}

// TestInputFails: an error of the input ends the run, after the lines before the error are
// answered.
func TestInputFails(t *testing.T) {
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("http://a.test/\nhttp://a.tes"), failing{broken})
	var out bytes.Buffer
	if _, err := Run(t.Context(), Config{}, in, &out, io.Discard); !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 1") {
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
	s := &stream{faults: io.Discard, end: '\n', out: io.Discard, cfg: Config{SetBytes: func(uint64) {}}}
	var err error
	if _, err = s.setKey(Config{}); err != nil {
		t.Fatal(err)
	}
	if s.seen, err = (Settings{URLs: 100_000, FPR: 1e-6}).newSeen(time.Now()); err != nil {
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
	for name, cfg := range map[string]Config{"filter": {Settings: standard}, "exact": {Settings: exact}, "dir": {Settings: standard}} {
		b.Run("seen="+name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				if name == "dir" {
					cfg.Dir = b.TempDir()
				}
				if r, err := dedup(b.Context(), in, cfg); err != nil || len(r.out) != len(in) {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
