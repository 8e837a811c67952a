package robots

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/klauspost/compress/flate"
)

// MaxBinary is the maximum length of the binary form of Rules in bytes. Together with the
// host's state it fits into frontier.MaxBlob.
const MaxBinary = 16 << 10

var (
	// ErrTooLarge reports rules whose binary form is longer than MaxBinary, such as some
	// thousands of rules. They cannot be stored, so robots.txt must be requested again.
	ErrTooLarge = errors.New("robots: too many rules to keep")
	// ErrBinary reports bytes that AppendBinary did not write, or that a later version of
	// this package wrote.
	ErrBinary = errors.New("robots: not in the binary form")
)

const (
	binaryVersion = 2
	// compressFrom is the smallest size in bytes at which rules are compressed.
	compressFrom = 1 << 10
	// maxInflated is the maximum size of decompressed rules. It is large enough, because
	// normalising turns one byte into at most three.
	maxInflated = 4 * MaxBytes
)

// AppendBinary appends the rules and the crawl-delay, but not the sitemaps, to b. If they
// are too long it returns ErrTooLarge, and b unchanged.
//
// The form begins with a byte that has the version, and a byte that is 1 if the bytes
// after it are deflated. Then come the crawl-delay in ms plus 1 (0 if there is none), the number
// of rules, the rules, and the lines about the use of content. A rule is a number and its pattern.
// The number is twice the length of the pattern, plus 1 for Allow. Such a line is the number of its
// name, and its path and value, each after its length.
func (r *Rules) AppendBinary(b []byte) ([]byte, error) {
	var plain []byte
	delay := uint64(0)
	if r.hasDelay {
		delay = uint64(r.crawlDelay/time.Millisecond) + 1
	}
	plain = binary.AppendUvarint(plain, delay)
	plain = binary.AppendUvarint(plain, uint64(len(r.rules)))
	for _, rule := range r.rules {
		size, prefix := uint64(rule.length)<<1, disallowPrefix
		if rule.allow {
			size, prefix = size|1, allowPrefix
		}
		plain = binary.AppendUvarint(plain, size)
		plain = append(plain, rule.text[len(prefix):]...)
	}
	for i := range r.useLines {
		plain = r.useLines[i].line.append(plain)
	}
	deflated := byte(0)
	if len(plain) >= compressFrom {
		var out bytes.Buffer
		if err := flate.StatelessDeflate(&out, plain, true, nil); err != nil {
			return b, err // does not happen with a bytes.Buffer
		}
		plain, deflated = out.Bytes(), 1
	}
	if len(plain)+2 > MaxBinary {
		return b, ErrTooLarge
	}
	return append(append(b, binaryVersion, deflated), plain...), nil
}

// UnmarshalBinary sets r from bytes that AppendBinary has appended. On error it returns
// ErrBinary and leaves r unchanged. It is not safe for concurrent use.
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
	b = b[n:]
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b)) {
		return ErrBinary
	}
	b = b[n:]
	lines := make([]string, 0, count)
	for range count {
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
	uses, err := readUseLines(b)
	if err != nil {
		return err
	}
	*r = *compile(lines)
	r.setUseLines(uses)
	if delay > 0 {
		r.crawlDelay, r.hasDelay = time.Duration(delay-1)*time.Millisecond, true
	}
	return nil
}
