package robots

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/klauspost/compress/flate"
)

// MaxBinary is the longest binary form of Rules in bytes. Together with the host's
// state it fits into frontier.MaxBlob.
const MaxBinary = 16 << 10

var (
	// ErrTooLarge reports rules whose binary form is longer than MaxBinary:
	// some thousands of them. They must be requested again.
	ErrTooLarge = errors.New("robots: too many rules to keep")
	// ErrBinary reports bytes that are not from AppendBinary, or from a later version.
	ErrBinary = errors.New("robots: not in the binary form")
)

const (
	binaryVersion = 1
	// compressFrom is from what size on rules are compressed.
	compressFrom = 1 << 10
	// maxInflated bounds what compressed rules can become: normalising triples
	// a byte at most.
	maxInflated = 4 * MaxBytes
)

// AppendBinary appends the rules and the crawl-delay, not the sitemaps, to b. On
// error, ErrTooLarge, it returns b unchanged.
//
// The form is: version, and 1 if the rest is deflated; then the crawl-delay in ms +
// 1, 0 for none, and each rule as its length × 2, + 1 for Allow, and its pattern.
func (r *Rules) AppendBinary(b []byte) ([]byte, error) {
	var plain []byte
	delay := uint64(0)
	if r.hasDelay {
		delay = uint64(r.crawlDelay/time.Millisecond) + 1
	}
	plain = binary.AppendUvarint(plain, delay)
	for _, rule := range r.rules {
		size, prefix := uint64(rule.length)<<1, disallowPrefix
		if rule.allow {
			size, prefix = size|1, allowPrefix
		}
		plain = binary.AppendUvarint(plain, size)
		plain = append(plain, rule.text[len(prefix):]...)
	}
	deflated := byte(0)
	if len(plain) >= compressFrom {
		var out bytes.Buffer
		if err := flate.StatelessDeflate(&out, plain, true, nil); err != nil {
			return b, err // a bytes.Buffer does not fail
		}
		plain, deflated = out.Bytes(), 1
	}
	if len(plain)+2 > MaxBinary {
		return b, ErrTooLarge
	}
	return append(append(b, binaryVersion, deflated), plain...), nil
}

// MarshalBinary returns the result of AppendBinary.
func (r *Rules) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// UnmarshalBinary sets r from the bytes of AppendBinary. It must not be called
// concurrently. On error, ErrBinary, r is unchanged.
func (r *Rules) UnmarshalBinary(b []byte) error {
	if len(b) < 2 || len(b) > MaxBinary || b[0] != binaryVersion || b[1] > 1 {
		return ErrBinary
	}
	deflated, b := b[1] == 1, b[2:]
	if deflated {
		plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(b)), maxInflated+1))
		if err != nil || len(plain) > maxInflated {
			return ErrBinary
		}
		b = plain
	}
	delay, n := binary.Uvarint(b)
	if n <= 0 || delay > uint64(maxCrawlDelay/time.Millisecond)+1 {
		return ErrBinary
	}
	var lines []string
	for b = b[n:]; len(b) > 0; {
		size, n := binary.Uvarint(b)
		if n <= 0 || size>>1 > uint64(len(b)-n) {
			return ErrBinary
		}
		prefix, end := disallowPrefix, n+int(size>>1)
		if size&1 == 1 {
			prefix = allowPrefix
		}
		lines = append(lines, prefix+string(b[n:end]))
		b = b[end:]
	}
	*r = *compile(lines)
	if delay > 0 {
		r.crawlDelay, r.hasDelay = time.Duration(delay-1)*time.Millisecond, true
	}
	return nil
}
