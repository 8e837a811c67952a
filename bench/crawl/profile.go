package crawl

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/bloomfrontier/crawler/internal/stage"
)

// What processor time is told by that no stage has.
const (
	garbage = "gc"
	other   = "other"
)

// stageTimes reads a CPU profile and returns the processor time of each stage.
// Goroutines that libraries started by themselves have no label: they count by
// what they do.
func stageTimes(packed io.Reader) (map[string]time.Duration, error) {
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fmt.Errorf("read a profile: %w", err)
	}
	raw, err := io.ReadAll(unpacked)
	if err != nil {
		return nil, fmt.Errorf("read a profile: %w", err)
	}
	p := profile{functions: make(map[uint64]uint64), locations: make(map[uint64][]uint64)}
	if err := fields(raw, p.field); err != nil {
		return nil, fmt.Errorf("read a profile: %w", err)
	}
	times := make(map[string]time.Duration)
	for _, s := range p.samples {
		times[p.stageOf(s)] += time.Duration(s.nanoseconds)
	}
	return times, nil
}

// profile is the part of a pprof profile that tells stages: messages of
// profile.proto in github.com/google/pprof.
type profile struct {
	texts     []string
	functions map[uint64]uint64   // by id, the number of the name
	locations map[uint64][]uint64 // by id, the ids of functions
	samples   []sample
}

type sample struct {
	locations   []uint64
	labels      map[uint64]uint64 // numbers of keys and values
	nanoseconds uint64
}

// field takes a field of Profile.
func (p *profile) field(number protowire.Number, value []byte, _ uint64) error {
	switch number {
	case 2:
		return p.sample(value)
	case 4:
		var id uint64
		var within []uint64
		err := fields(value, func(number protowire.Number, line []byte, n uint64) error {
			switch number {
			case 1:
				id = n
			case 4:
				return fields(line, func(number protowire.Number, _ []byte, n uint64) error {
					if number == 1 {
						within = append(within, n)
					}
					return nil
				})
			}
			return nil
		})
		p.locations[id] = within
		return err
	case 5:
		var id, name uint64
		err := fields(value, func(number protowire.Number, _ []byte, n uint64) error {
			switch number {
			case 1:
				id = n
			case 2:
				name = n
			}
			return nil
		})
		p.functions[id] = name
		return err
	case 6:
		p.texts = append(p.texts, string(value))
	}
	return nil
}

// sample takes a Sample, whose last value is the time.
func (p *profile) sample(raw []byte) error {
	s := sample{labels: make(map[uint64]uint64)}
	err := fields(raw, func(number protowire.Number, value []byte, n uint64) (err error) {
		switch number {
		case 1:
			s.locations, err = numbers(s.locations, value, n)
		case 2:
			var values []uint64
			if values, err = numbers(nil, value, n); len(values) > 0 {
				s.nanoseconds = values[len(values)-1]
			}
		case 3:
			var key, text uint64
			err = fields(value, func(number protowire.Number, _ []byte, n uint64) error {
				switch number {
				case 1:
					key = n
				case 2:
					text = n
				}
				return nil
			})
			s.labels[key] = text
		}
		return err
	})
	p.samples = append(p.samples, s)
	return err
}

func (p *profile) text(n uint64) string {
	if n >= uint64(len(p.texts)) {
		return ""
	}
	return p.texts[n]
}

// stageOf returns the stage of a sample.
func (p *profile) stageOf(s sample) string {
	for key, value := range s.labels {
		if p.text(key) == stage.Label {
			return p.text(value)
		}
	}
	found := ""
	for _, location := range s.locations { // from the innermost on
		for _, function := range p.locations[location] {
			switch name := p.text(p.functions[function]); {
			case strings.HasPrefix(name, "runtime.gcBgMark"), strings.HasPrefix(name, "runtime.bgsweep"), strings.HasPrefix(name, "runtime.bgscavenge"):
				return garbage
			case strings.Contains(name, "cockroachdb/pebble"):
				found = "store"
			case strings.HasPrefix(name, "net/http."):
				found = "fetch"
			}
		}
	}
	return cmp.Or(found, other)
}

var errDamaged = errors.New("it is no profile, or cut")

// fields calls take with each field of a message: its bytes, or its number.
func fields(message []byte, take func(number protowire.Number, value []byte, n uint64) error) error {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return errDamaged
		}
		message = message[size:]
		var value []byte
		var n uint64
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			value, size = protowire.ConsumeBytes(message)
		default:
			size = protowire.ConsumeFieldValue(number, kind, message)
		}
		if size < 0 {
			return errDamaged
		}
		if err := take(number, value, n); err != nil {
			return err
		}
		message = message[size:]
	}
	return nil
}

// numbers appends those of a repeated field, which are packed or one by one.
func numbers(to []uint64, packed []byte, single uint64) ([]uint64, error) {
	if packed == nil {
		return append(to, single), nil
	}
	for rest := packed; len(rest) > 0; {
		n, size := protowire.ConsumeVarint(rest)
		if size < 0 {
			return to, errDamaged
		}
		to, rest = append(to, n), rest[size:]
	}
	return to, nil
}
