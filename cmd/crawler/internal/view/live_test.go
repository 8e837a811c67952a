package view

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// busy returns a reading in which all parts are set.
func busy() report.Reading {
	return report.Reading{
		Sample: report.Sample{
			Time: epoch.Add(3723 * time.Second), Started: epoch,
			Pages: 12_345, Queued: 1_234_567, Delayed: 12, Hosts: 321, Found: 200_000, Added: 12_700, Seen: 87_300, Errors: 12,
			MaxPages: 100_000,
			Gauges:   report.Gauges{Worker: fetcher.Progress{Held: 64, Parked: 64, Delay: time.Second}, Hosts: 321, DelayFlag: time.Second},
		},
		Over: 10 * time.Second, PagesPerSecond: 152.3, BytesPerSecond: 2_100_000,
		Limit: report.Factor{Kind: report.Politeness, Gauges: report.Gauges{Worker: fetcher.Progress{Held: 64, Parked: 64, Delay: time.Second}, Hosts: 321, DelayFlag: time.Second}},
		End:   report.End{By: report.ByPages, Share: 0.12345, Left: 9*time.Minute + 36*time.Second},
	}
}

// TestLastError: the view shows the last error as long as it is recent.
func TestLastError(t *testing.T) {
	r := busy()
	r.LastError = &fetcher.LastError{Time: r.Time.Add(-2 * freshError), Host: "a.test", Error: "robots.txt: lookup a.test: no such h\u00f6st\x1b[2J"}
	const want = "last error: a.test: robots.txt: lookup a.test: no such h?st?[2J"
	shown := func() bool {
		s := newScreen(120, 24, true)
		NewLive(s, s.size, false).Draw(r)
		return slices.Contains(s.lines(), want)
	}
	if shown() {
		t.Error("the last error is shown, although it is old and no host backs off")
	}
	r.Gauges.Worker.BackingOff = 1
	if !shown() {
		t.Error("the last error is not shown while a host backs off")
	}
	r.Gauges.Worker.BackingOff, r.LastError.Time = 0, r.Time
	if !shown() {
		t.Error("a recent error is not shown")
	}
}

// TestLateRelaysAreShown: the view shows how far relays are behind and why a sink is
// unavailable. It shows nothing about a relay that has delivered everything.
func TestLateRelaysAreShown(t *testing.T) {
	r := busy()
	r.Relays = []report.RelayStatus{
		{Name: "done"}, {Name: "index", Events: 12, Bytes: 3400, Seconds: 2},
		{Name: "audit", Away: "lookup h\u00f6st\x1b[2J: no such host"},
	}
	s := newScreen(120, 24, true)
	NewLive(s, s.size, false).Draw(r)
	var got []string
	for _, line := range s.lines() {
		if strings.HasPrefix(line, "relay") {
			got = append(got, line)
		}
	}
	want := []string{"relay index: 12 events behind (3.3 KiB, 2s)", "relay audit: all delivered; the sink is away: lookup h?st?[2J: no such host"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines about relays (-want +got):\n%s", diff)
	}
}

func TestLinesOfEachWidth(t *testing.T) {
	for width, want := range map[int][]string{
		160: {
			"12,345 pages  152 pages/s  2.1 MB/s  1,234,567 queued (12 delayed)  64 of 321 hosts active  seen 87.3%  12 errors  1h02m",
			"limited by politeness: 321 hosts, 321 requests/s (--delay 1s)",
			"[=====>                                          ]  12.3%  9m36s left (--max-pages 100,000)",
		},
		80: {
			"12,345 pages  152 pages/s  2.1 MB/s  1,234,567 queued (12 delayed)",
			"64 of 321 hosts active  seen 87.3%  12 errors  1h02m",
			"limited by politeness: 321 hosts, 321 requests/s (--delay 1s)",
			"[====>                               ]  12.3%  9m36s left (--max-pages 100,000)",
		},
		40: {
			"12,345 pages  152 pages/s  2.1 MB/s",
			"1,234,567 queued (12 delayed)",
			"64 of 321 hosts active  seen 87.3%",
			"12 errors  1h02m",
			"limited by politeness: 321 hosts, 321",
			"requests/s (--delay 1s)",
			"[==>               ]  12.3%  9m36s left",
		},
	} {
		s := newScreen(width, 24, true)
		NewLive(s, s.size, false).Draw(busy())
		if diff := cmp.Diff(want, s.lines()); diff != "" {
			t.Errorf("lines at %d columns (-want +got):\n%s", width, diff)
		}
		for _, fault := range s.faults {
			t.Error(fault)
		}
	}
}

// TestSmallTerminals: on a terminal of any size, the view never scrolls and leaves the
// last column empty.
func TestSmallTerminals(t *testing.T) {
	for width := 1; width < 120; width++ {
		for height := 1; height < 6; height++ {
			s := newScreen(width, height, true)
			live := NewLive(s, s.size, true)
			live.Draw(busy())
			live.Draw(busy())
			if len(s.rows) > height || len(s.faults) > 0 || s.y != 0 || s.x != 0 {
				t.Fatalf("screen of %dx%d: %d rows, cursor at %d,%d, faults %q; want no scrolling and the cursor at 0,0",
					width, height, len(s.rows), s.x, s.y, s.faults)
			}
			for _, r := range s.rows {
				if r.joined || width > 1 && len(r.text) >= width {
					t.Fatalf("screen of %dx%d: row %q reaches the last column", width, height, r.text)
				}
			}
		}
	}
}

func TestUnknownSize(t *testing.T) {
	s := newScreen(80, 24, true)
	NewLive(s, func() (int, int) { return 0, 0 }, false).Draw(busy())
	known := newScreen(80, 24, true)
	NewLive(known, known.size, false).Draw(busy())
	if diff := cmp.Diff(known.lines(), s.lines()); diff != "" {
		t.Errorf("a screen of unknown size is not drawn as one of 80 columns (-80 columns +unknown):\n%s", diff)
	}
}

func TestColorsOnRequest(t *testing.T) {
	for color, want := range map[bool]bool{true: true, false: false} {
		s := newScreen(80, 24, true)
		NewLive(s, s.size, color).Draw(busy())
		if got := s.colors > 0; got != want {
			t.Errorf("color=%t: got %d colour sequences, want some only with color", color, s.colors)
		}
	}
}

// TestNothingElseOnScreen draws, prints, clears and resizes in any order. The
// terminal then shows the printed lines with one view below them, and nothing
// else.
func TestNothingElseOnScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(20, 90), rapid.IntRange(12, 30)
		s := newScreen(width.Draw(t, "width"), height.Draw(t, "height"), rapid.Bool().Draw(t, "reflow"))
		// A resize without reflow cuts lines that are wider than the screen. So without reflow, each
		// printed line fits on the narrowest screen.
		longest := 18
		if s.reflow {
			longest = 200
		}
		live := NewLive(s, s.size, rapid.Bool().Draw(t, "color"))
		printer := live.Printer()
		var printed []string
		shown, stale := false, false // stale: the view was not drawn since a resize
		t.Repeat(map[string]func(*rapid.T){
			"draw": func(t *rapid.T) {
				r := busy()
				r.Pages = rapid.Uint64Range(0, 1e12).Draw(t, "pages")
				if rapid.Bool().Draw(t, "no end") {
					r.End = report.End{}
				}
				live.Draw(r)
				shown, stale = true, false
			},
			"print": func(t *rapid.T) {
				text := strings.Repeat("x", rapid.IntRange(1, longest).Draw(t, "n"))
				fmt.Fprintln(printer, text)
				printed, stale = append(printed, text), false
			},
			"clear": func(t *rapid.T) {
				live.Clear()
				shown = false
			},
			"resize": func(t *rapid.T) {
				s.resize(width.Draw(t, "width"), height.Draw(t, "height"))
				stale = true
			},
			"": func(t *rapid.T) {
				if len(s.faults) > 0 {
					t.Fatal(s.faults)
				}
				if shown && stale {
					return // until the next drawing the view can be cut or broken
				}
				got, want := s.lines(), printed
				if shown {
					for _, l := range layout(*live.shown, s.width-1, s.height) {
						var b strings.Builder
						l.write(&b, false)
						want = append(slices.Clip(want), strings.TrimRight(b.String(), " "))
					}
				}
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("lines on the screen (-want +got):\n%s", diff)
				}
			},
		})
	})
}

// TestOneWrite: each drawing, each printed line and each call of Clear is one write, so
// no other output can interrupt it.
func TestOneWrite(t *testing.T) {
	var writes counter
	live := NewLive(&writes, func() (int, int) { return 80, 24 }, true)
	live.Draw(busy())
	fmt.Fprint(live.Printer(), "a line\n")
	live.Clear()
	if writes.n != 3 {
		t.Errorf("%d writes, want one each for draw, print and clear", writes.n)
	}
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) { c.n++; return len(p), nil }

// TestConcurrentPrinters: lines of concurrent goroutines are printed whole, also while
// the view is drawn.
func TestConcurrentPrinters(t *testing.T) {
	var out bytes.Buffer
	live := NewLive(&out, func() (int, int) { return 80, 24 }, false)
	done := make(chan struct{})
	const printers, lines = 4, 50
	for i := range printers {
		go func() {
			defer func() { done <- struct{}{} }()
			for n := range lines {
				fmt.Fprintf(live.Printer(), "printer %d line %d\n", i, n)
				if n%4 == 0 {
					live.Draw(busy())
				}
			}
		}()
	}
	for range printers {
		<-done
	}
	live.Clear()
	s := newScreen(80, 1<<20, false)
	_, _ = io.Copy(s, &out)
	got := s.lines()
	slices.Sort(got)
	if n := len(slices.Compact(got)); n != printers*lines || len(s.faults) > 0 {
		t.Errorf("%d different lines, want %d; faults %q", n, printers*lines, s.faults)
	}
}

func BenchmarkDraw(b *testing.B) {
	live, r := NewLive(io.Discard, func() (int, int) { return 80, 24 }, true), busy()
	for b.Loop() {
		live.Draw(r)
	}
}
