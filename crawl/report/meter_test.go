package report

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bloomfrontier/crawler/fetcher"
)

// run reads one sample for each second from 0 to the given number of seconds. It returns
// the last reading.
func run(m *Meter, seconds int, sample func(second uint64) Sample) Reading {
	var r Reading
	for i := range uint64(seconds + 1) {
		s := sample(i)
		s.Started, s.Time = epoch, epoch.Add(time.Duration(i)*time.Second)
		r = m.Read(s)
	}
	return r
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestRatesOfSamples(t *testing.T) {
	var m Meter
	r := run(&m, 100, func(i uint64) Sample {
		// In the last ten seconds, pages arrive twice as fast as before.
		return Sample{Pages: 500 + 3*i + 3*max(i, 90) - 270, Bytes: 1000 * i}
	})
	if r.PagesPerSecond != 6 || r.BytesPerSecond != 1000 || r.Over != rateOver {
		t.Errorf("%v pages/s, %v bytes/s over %v, want 6 and 1000 over the last %v", r.PagesPerSecond, r.BytesPerSecond, r.Over, rateOver)
	}
	if n := len(m.samples); n > 62 {
		t.Errorf("%d of 101 samples are kept, want at most 62: those of a minute", n)
	}
}

func TestFirstReadings(t *testing.T) {
	var m Meter
	if r := m.Read(Sample{Time: epoch, Pages: 1000}); r.Over != 0 || r.PagesPerSecond != 0 {
		t.Errorf("one sample gives %v pages/s over %v, want 0 over 0", r.PagesPerSecond, r.Over)
	}
	if r := m.Read(Sample{Time: epoch.Add(30 * time.Second), Pages: 1060}); r.PagesPerSecond != 2 {
		t.Errorf("%v pages/s from samples 30 s apart, want 2", r.PagesPerSecond)
	}
	if r := m.Read(Sample{Time: epoch.Add(60 * time.Second), Pages: 10}); r.PagesPerSecond != 0 {
		t.Errorf("%v pages/s from a counter that began anew, want 0", r.PagesPerSecond)
	}
}

func TestEndReachedFirst(t *testing.T) {
	const minute = time.Minute
	for _, test := range []struct {
		name    string
		seconds int
		sample  func(i uint64) Sample
		want    End
	}{
		{"none", 90, func(i uint64) Sample { return Sample{Pages: i, Added: i} }, End{}},
		{"pages", 90, func(i uint64) Sample { return Sample{Pages: 10 * i, Added: i, MaxPages: 1800} }, End{ByPages, 0.5, 90 * time.Second}},
		{"pages reached", 90, func(i uint64) Sample { return Sample{Pages: 10 * i, MaxPages: 100} }, End{ByPages, 1, 0}},
		{"no pages come", 90, func(uint64) Sample { return Sample{Pages: 25, MaxPages: 100} }, End{ByPages, 0.25, -1}},
		{"time", 60, func(uint64) Sample { return Sample{Deadline: epoch.Add(4 * minute)} }, End{ByTime, 0.25, 3 * minute}},
		{"time is over", 60, func(uint64) Sample { return Sample{Deadline: epoch.Add(minute / 2)} }, End{ByTime, 1, 0}},
		{"time before pages", 60, func(i uint64) Sample {
			return Sample{Pages: i, MaxPages: 1e6, Deadline: epoch.Add(4 * minute)}
		}, End{ByTime, 0.25, 3 * minute}},
		{"pages before time", 60, func(i uint64) Sample {
			return Sample{Pages: i, MaxPages: 80, Deadline: epoch.Add(4 * minute)}
		}, End{ByPages, 0.75, 20 * time.Second}},
		{"time, when no pages come", 60, func(uint64) Sample {
			return Sample{MaxPages: 80, Deadline: epoch.Add(4 * minute)}
		}, End{ByTime, 0.25, 3 * minute}},
		{"a closed queue", 10, func(i uint64) Sample {
			return Sample{Finished: i, Queued: 28 - i, Leased: 2, Closed: true}
		}, End{ByQueue, 1.0 / 3, 20 * time.Second}},
		{"nothing new for a minute", 70, func(i uint64) Sample {
			return Sample{Finished: i, Added: 100, Queued: 100 - i}
		}, End{BySettled, 0.7, 30 * time.Second}},
		{"nothing new for less", 59, func(i uint64) Sample {
			return Sample{Finished: i, Added: 100, Queued: 100 - i}
		}, End{}},
		{"nothing new, and nothing done", 70, func(uint64) Sample { return Sample{Added: 100, Queued: 100} }, End{}},
		{"something new", 70, func(i uint64) Sample {
			return Sample{Finished: i, Added: 100 + i/60, Queued: 100 - i}
		}, End{}},
		{"a long way", 60, func(i uint64) Sample { return Sample{Pages: min(i, 1), MaxPages: math.MaxUint64} },
			End{ByPages, 0, 100 * 365 * 24 * time.Hour}},
	} {
		got := run(new(Meter), test.seconds, test.sample).End
		if diff := cmp.Diff(test.want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestLimitAndShares(t *testing.T) {
	var m Meter
	r := run(&m, 100, func(i uint64) Sample {
		switch {
		case i <= 20:
			return Sample{Gauges: Gauges{Paused: true}}
		case i <= 90:
			return Sample{Gauges: Gauges{Worker: fetcher.Progress{Slots: 1, Asking: 1}}}
		default: // a majority of the last 15 samples
			return Sample{Gauges: Gauges{Hosts: 1}}
		}
	})
	if r.Limit.Kind != Politeness {
		t.Errorf("limited by %s, want politeness", r.Limit.Kind)
	}
	want := []Share{{Network, 70, 0.7}, {Paused, 20, 0.2}, {Politeness, 10, 0.1}}
	if diff := cmp.Diff(want, m.Shares(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("Shares (-want +got):\n%s", diff)
	}
	if shares := new(Meter).Shares(); shares != nil {
		t.Errorf("shares of no samples: %v, want nil", shares)
	}
}
