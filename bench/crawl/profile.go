package crawl

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/bloomfrontier/crawler/internal/stage"
)

// Labels for processor time that belongs to no stage.
const (
	garbage = "gc"
	other   = "other"
)

// stageTimes reads a CPU profile and returns the processor time of each stage. Goroutines
// that libraries start have no label. Their stage is found by the functions on their
// stacks.
func stageTimes(packed io.Reader) (map[string]time.Duration, error) { return timesBy(stageOf, packed) }

// partTimes is like stageTimes, with the stage fetch in three parts: TLS, gunzip and HTTP.
func partTimes(packed io.Reader) (map[string]time.Duration, error) { return timesBy(partOf, packed) }

// timesBy reads a CPU profile and sums the processor time by what the function of returns for a sample.
func timesBy(of func(*profile.Sample) string, packed io.Reader) (map[string]time.Duration, error) {
	p, err := profile.Parse(packed)
	if err != nil {
		return nil, fmt.Errorf("read a profile: %w", err)
	}
	times := make(map[string]time.Duration)
	for _, s := range p.Sample {
		times[of(s)] += time.Duration(s.Value[len(s.Value)-1]) // the last value is the time in ns
	}
	return times, nil
}

// timesIn returns what read returns for the profile in a file.
func timesIn(file string, read func(io.Reader) (map[string]time.Duration, error)) (map[string]time.Duration, error) {
	written, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer written.Close()
	return read(written)
}

// partOf returns the stage of a sample, or its part of the stage fetch. Goroutines of net/http have no stage.
func partOf(s *profile.Sample) string {
	part := stageOf(s)
	if part != "fetch" && part != other {
		return part
	}
	for _, location := range s.Location {
		for _, line := range location.Line {
			if line.Function == nil {
				continue
			}
			switch name := line.Function.Name; {
			case strings.HasPrefix(name, "crypto/tls."), strings.HasPrefix(name, "crypto/x509."):
				return "TLS"
			case strings.Contains(name, "compress/flate."), strings.Contains(name, "compress/gzip."):
				return "gunzip"
			}
		}
	}
	if part == "fetch" {
		return "HTTP"
	}
	return part
}

func stageOf(s *profile.Sample) string {
	if label := s.Label[stage.Label]; len(label) > 0 {
		return label[0]
	}
	found := other
	for _, location := range s.Location { // from the innermost function on
		for _, line := range location.Line {
			if line.Function == nil {
				continue
			}
			switch name := line.Function.Name; {
			case strings.HasPrefix(name, "runtime.gcBgMark"), strings.HasPrefix(name, "runtime.bgsweep"), strings.HasPrefix(name, "runtime.bgscavenge"):
				return garbage
			case strings.Contains(name, "cockroachdb/pebble"):
				found = "store"
			case strings.HasPrefix(name, "net/http."):
				found = "fetch"
			}
		}
	}
	return found
}
