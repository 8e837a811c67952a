package size

import (
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/internal/suite"
	"github.com/bloomfrontier/crawler/sizing"
)

// command runs `crawler size` with args.
func command(args ...string) (stdout string, err error) {
	c := Command()
	var out strings.Builder
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(io.Discard)
	c.SilenceUsage, c.SilenceErrors = true, true
	err = c.Execute()
	return out.String(), err
}

func reportOf(t *testing.T, args ...string) report {
	t.Helper()
	out, err := command(append(args, "--json")...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%q: %v in %s", args, err, out)
	}
	return r
}

func TestReportText(t *testing.T) {
	out, err := command("--urls", "1e9", "--fpr", "1 in 1000000", "--queued", "50M", "--hosts", "1M")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"A Bloom filter for 1,000,000,000 URLs",
		"28,755,278,678 (3.35 GiB)",
		"hash functions       20",
		"28.755, 1.44 times the information bound of 19.93",
		"1 in 15.2M of the URLs, 66 in all",
		"In memory (one machine), growing",
		"blocks               1,024 bits, k = 18",
		"append-only file     248 bytes per new URL",
		"used_memory          4.00 GiB, 34.36 bits per URL, if all hosts have equally many",
		"one host             at most 86,400 pages a day",
		"one domain           at most 345,600 with --domain-rate 4, which is the default",
		"BF.RESERVE crawl:seen 1e-06 1000000000 NONSCALING",
		"Go map of 16-byte fingerprints",
		"A queue of 50,000,000 URLs of 80 bytes",
		"rate                 64 pages/s",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
			t.Errorf("line ends in blanks: %q", line)
		}
	}
}

func TestJSON(t *testing.T) {
	r := reportOf(t, "--urls", "10M", "--fpr", "1%", "--growth", "off")
	if r.Filter.Hashes != 7 || math.Abs(r.Filter.BitsPerURL-9.593) > 0.001 || r.Queue != nil || r.Growth {
		t.Errorf("report %+v, want 7 hash functions, 9.593 bits per URL, no queue and no growth", r)
	}
	if share := r.Filter.LostShare; math.Abs(share-0.001658) > 1e-6 {
		t.Errorf("LostShare = %g, want 0.001658", share)
	}
	var overfilled []float64
	for _, f := range r.Fills {
		overfilled = append(overfilled, f.Fixed.FPR)
		if f.Growing.FPR > 0.01 {
			t.Errorf("FPR of a growing filter with %gn keys = %g, want at most 1 %%", f.Of, f.Growing.FPR)
		}
	}
	if len(overfilled) != 5 || math.Abs(overfilled[2]-0.058) > 5e-4 || math.Abs(overfilled[3]-0.157) > 5e-4 {
		t.Errorf("rates at 0.5n to 4n: %v, want 5.8 %% at 1.5n and 15.7 %% at 2n", overfilled)
	}
}

// TestRows: the rows of pages are in the report only with --recrawl, and grow with the URLs.
func TestRows(t *testing.T) {
	if r := reportOf(t, "--urls", "1M"); r.Rows != nil {
		t.Errorf("without --recrawl: %+v, want none", r.Rows)
	}
	short, long := reportOf(t, "--urls", "1M", "--recrawl").Rows, reportOf(t, "--urls", "1M", "--recrawl", "--url-bytes", "160").Rows
	if short == nil || long == nil || long.BytesPerPage <= short.BytesPerPage || short.Bytes != uint64(1e6*short.BytesPerPage) {
		t.Errorf("rows of URLs of 80 bytes: %+v, of 160: %+v", short, long)
	}
	if out, err := command("--urls", "1M", "--recrawl"); err != nil || !strings.Contains(out, "Rows of 1,000,000 pages") {
		t.Errorf("%v: the text has no rows:\n%s", err, out)
	}
}

func TestQueueCounts(t *testing.T) {
	r := reportOf(t, "--urls", "1M", "--queued", "500k", "--hosts", "1000")
	if want := sizing.RedisQueue(500_000, 1000, 80); r.Queue == nil || r.Queue.Redis != want || r.Redis.UsedMemory != r.Redis.Bytes+want+sizing.RedisCounts(1000) {
		t.Errorf("queue %+v, used_memory %d; want used_memory to be %d of the filter + %d of the queue, and the counts of 1000 hosts",
			r.Queue, r.Redis.UsedMemory, r.Redis.Bytes, want)
	}
	if q := r.Queue; q.Disk.Least == 0 || q.Disk.Most < q.Disk.Least || q.Exact.Least == 0 || q.Exact.Most < q.Exact.Least {
		t.Errorf("queue on disk %+v, in Postgres %+v; want 0 < Least <= Most in both", q.Disk, q.Exact)
	}
	if r := reportOf(t, "--urls", "1M"); r.Queue != nil {
		t.Errorf("without --queued: queue %+v, want none", r.Queue)
	}
}

// TestSolvesForTheRest: for several combinations of given values, the other values are
// computed.
func TestSolvesForTheRest(t *testing.T) {
	byMemory := reportOf(t, "--urls", "100M", "--memory", "512MiB")
	if byMemory.Filter.Bits != 8*512<<20 || byMemory.Filter.FPR > 1.2e-9 || byMemory.Filter.FPR < 1e-9 {
		t.Errorf("100M URLs in 512 MiB: filter %+v, want an FPR of 1e-9 to 1.2e-9", byMemory.Filter)
	}
	if r := reportOf(t, "--memory", "512MiB", "--fpr", "1e-6"); r.Filter.Keys < 149e6 || r.Filter.Keys > 150e6 {
		t.Errorf("512 MiB with FPR 1e-6: filter %+v, want 149M to 150M keys", r.Filter)
	}
	if r := reportOf(t, "--urls", "1e9", "--lost", "1000"); r.Filter.LostKeys > 1000 || r.Filter.LostKeys < 999.9 {
		t.Errorf("--lost 1000: filter %+v, want LostKeys of 1000", r.Filter)
	}
	if r := reportOf(t, "--urls", "1e9", "--lost", "1 in 1M"); r.Filter.LostKeys > 1000 || r.Filter.LostKeys < 999.9 {
		t.Errorf("--lost \"1 in 1M\": filter %+v, want LostKeys of 1000", r.Filter)
	}
	if r := reportOf(t, "--urls", "1e9", "--max-hashes", "8"); r.Filter.Hashes != 8 || r.Filter.FPR > 1e-6 {
		t.Errorf("--max-hashes 8: filter %+v, want 8 hash functions and an FPR of at most 1e-6", r.Filter)
	}
	if r := reportOf(t); r.Filter.Keys != 10_000_000 || r.Filter.Hashes != 20 || r.Time.Hosts != 100_000 {
		t.Errorf("without flags: filter %+v, %d hosts; want 10M keys, 20 hash functions and 100,000 hosts", r.Filter, r.Time.Hosts)
	}
}

func TestFlagFaults(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"--urls 0", []string{"--urls", "1e15"}},
		{"--fpr 1.5", []string{"--fpr", "1 in 1000000"}},
		{"--urls 1e9 --memory 1GiB --fpr 1e-6", []string{"do not fit into 1.00 GiB", "--fpr 0.0162 with both", "--memory 3.35GiB", "--urls 298725"}},
		{"--memory 1B --fpr 1e-6", []string{"1 B hold no URL", "--memory 4B for 1 URL"}},
		{"--urls 1e12 --memory 1KiB", []string{"to the last bit", "--urls 284 at --fpr 1e-06"}},
		{"--urls 1 --memory 1GiB", []string{"are more than a filter for 1 URL can use", "at p = 1e-18"}},
		{"--urls 10 --lost 10", []string{"no filter is needed"}},
		{"--hashes 9 --max-hashes 8", []string{"9 hash functions"}},
		{"--hashes 65", []string{"--hashes", "want a whole number from 1 to 64"}},
		{"--block 100", []string{"--block", "want a multiple of 32"}},
		{"--partitions 0", []string{"--partitions", "want a whole number from 1 to 65536"}},
		{"--workers -1", []string{"--workers", "want a whole number of 1 or more"}},
		{"--latency 0", []string{"--latency", "want a time of more than 0"}},
		{"--growth maybe", []string{"want on or off"}},
		{"extra", []string{"extra"}},
	} {
		out, err := command(strings.Fields(c.args)...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("size %s: error %v, want %q in it", c.args, err, want)
			}
		}
		if out != "" {
			t.Errorf("size %s: printed %q, want only an error", c.args, out)
		}
	}
}

// TestSuggestedValuesAreAccepted: values that an error suggests as possible are accepted.
func TestSuggestedValuesAreAccepted(t *testing.T) {
	for _, args := range []string{
		"--urls 1e9 --memory 1GiB --fpr 0.0162",
		"--urls 298725485 --memory 1GiB --fpr 1e-6",
		"--urls 1e9 --memory 3.35GiB --fpr 1e-6",
		"--memory 4B --fpr 1e-6",
	} {
		if _, err := command(strings.Fields(args)...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestExtremeFlags: extreme values of the flags also give a report, within 20 s.
func TestExtremeFlags(t *testing.T) {
	for _, args := range []string{
		"--urls 1 --fpr 0.99", "--urls 1 --fpr 1e-18 --json", "--urls 1e15 --fpr 1e-18", "--urls 1e15 --fpr 0.99 --json",
		"--urls 1e15 --hosts 1 --delay 1000h --queued 1e15 --json", "--urls 1000 --hosts 1e15",
		"--urls 10M --fpr 1e-18 --block 64", "--urls 100 --partitions 65536", "--urls 1e9 --block 65536 --growth off",
		"--urls 100 --hashes 1 --fpr 0.3", "--memory 128PiB", "--urls 50 --lost 1e-18", "--lost 0.3 --json", "--delay 0s",
	} {
		start := time.Now()
		if _, err := command(strings.Fields(args)...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if took := time.Since(start); suite.TooLong(took, 20*time.Second) {
			t.Errorf("%s took %v, want at most 20s", args, took)
		}
	}
}

// TestMemoryIsWhatTheFilterTakes: the report has the number of bytes that a real filter
// in memory takes.
func TestMemoryIsWhatTheFilterTakes(t *testing.T) {
	for _, growth := range []string{"on", "off"} {
		r := reportOf(t, "--urls", "200k", "--fpr", "1e-4", "--growth", growth)
		config := membits.Config{Capacity: 200_000, FPR: 1e-4}
		if growth == "off" {
			config.Growth = membits.GrowthOff
		}
		filter, err := membits.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if got := filter.Stats().Bytes; got != r.Memory.Bytes {
			t.Errorf("growth %s: the filter takes %d bytes, but the report has %d", growth, got, r.Memory.Bytes)
		}
	}
}

// TestWindow: with --window the command compares numbers of generations, and recommends one.
func TestWindow(t *testing.T) {
	r := reportOf(t, "--urls", "1M", "--fpr", "1e-6", "--window", "30d")
	if r.Window == nil || r.Window.Recommended != sizing.RecommendedGenerations(1e-6) || len(r.Window.Layouts) != 5 {
		t.Fatalf("the report of the window is %+v", r.Window)
	}
	for _, row := range r.Window.Layouts {
		want := sizing.SizeWindow(sizing.Window{Keys: 1_000_000, FPR: 1e-6, Generations: row.Generations}, sizing.DefaultShards)
		kept := 30 * 24 * time.Hour * time.Duration(row.Generations+1) / time.Duration(row.Generations)
		if row.WindowLayout != want || time.Duration(row.Kept).Round(time.Second) != kept.Round(time.Second) {
			t.Errorf("%+v, want %+v, kept for %v", row, want, kept)
		}
	}
	if r := reportOf(t, "--urls", "1M"); r.Window != nil {
		t.Errorf("without --window the report has %+v", r.Window)
	}
}
