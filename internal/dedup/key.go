package dedup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// Values of Settings.LineKey, which say what identifies a line.
const (
	KeyURL    = ""       // its canonical URL
	KeyRaw    = "raw"    // all of its bytes
	KeyJSON   = "json:"  // a field of the JSON object that the line is; the path of the field follows
	KeySHA256 = "sha256" // the SHA-256 digest at its beginning, as sha256sum prints it, or else its own digest
)

// CheckLineKey returns an error unless key is a value of Settings.LineKey.
func CheckLineKey(key string) error {
	switch path, isJSON := strings.CutPrefix(key, KeyJSON); {
	case key == KeyURL, key == KeyRaw, key == KeySHA256:
		return nil
	case !isJSON:
		return errors.New("want url, raw, json:FIELD or sha256")
	case slices.Contains(strings.Split(path, "."), ""):
		return errors.New("want names of fields that are not empty, such as json:id or json:data.id")
	}
	return nil
}

// errEmpty reports a line that is skipped.
var errEmpty = errors.New("empty line")

// keyer returns what identifies a line. The key can share memory with the line, so it must not be
// used after the line.
type keyer func(line []byte) (key string, err error)

// newKeyer returns the keyer of a value of Settings.LineKey other than KeyURL.
func newKeyer(key string) keyer {
	switch path, isJSON := strings.CutPrefix(key, KeyJSON); {
	case isJSON:
		names := strings.Split(path, ".")
		return func(line []byte) (string, error) { return jsonKey(line, names) }
	case key == KeySHA256:
		return digestKey
	default:
		return rawKey
	}
}

func rawKey(line []byte) (string, error) {
	if len(line) == 0 {
		return "", errEmpty
	}
	return view(line), nil
}

// view returns the text of a line. It shares the memory of the line.
func view(line []byte) string { return unsafe.String(unsafe.SliceData(line), len(line)) }

// jsonKey returns the value of a field as it is written in JSON. A string is written in one form:
// "A" is "\u0041". The string "1" and the number 1 differ.
func jsonKey(line []byte, path []string) (string, error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return "", errEmpty
	}
	if !utf8.Valid(line) { // the decoder replaces invalid bytes, so that different values would become equal
		return "", fmt.Errorf("not UTF-8: %.120q", line)
	}
	value := json.RawMessage(line)
	for i, name := range path {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(value, &fields); err != nil || fields == nil {
			return "", fmt.Errorf("no JSON object with the field %s: %.120q", strings.Join(path[:i+1], "."), line)
		}
		var present bool
		if value, present = fields[name]; !present {
			return "", fmt.Errorf("the field %s is missing: %.120q", strings.Join(path[:i+1], "."), line)
		}
	}
	switch value[0] {
	case '"':
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return "", err
		}
		return `"` + text, nil
	case '{', '[', 'n', 't', 'f':
		return "", fmt.Errorf("the field %s is not a string or a number: %.120q", strings.Join(path, "."), line)
	}
	return string(value), nil
}

// digestKey returns a digest of 32 bytes: the one that the line begins with, in 64 hexadecimal
// digits, or else the SHA-256 of the line.
func digestKey(line []byte) (string, error) {
	const digits = 2 * sha256.Size
	if len(line) == 0 {
		return "", errEmpty
	}
	digest := make([]byte, sha256.Size)
	if len(line) >= digits && (len(line) == digits || bytes.IndexByte([]byte(" \t\r"), line[digits]) >= 0) {
		if _, err := hex.Decode(digest, line[:digits]); err == nil {
			return string(digest), nil
		}
	}
	sum := sha256.Sum256(line)
	return string(sum[:]), nil
}

// urlKeyer returns the keyer of KeyURL. The canonical URL of the last line is in *last.
func urlKeyer(c *canon.Canonicalizer, base canon.URL, last *canon.URL) keyer {
	return func(line []byte) (_ string, err error) {
		text := view(line)
		if !utf8.ValidString(text) {
			// The canonical form replaces all invalid bytes by one character, so
			// different URLs would become equal.
			return "", fmt.Errorf("not UTF-8: %.120q", text)
		}
		if *last, err = c.Join(base, text); err != nil {
			if strings.TrimSpace(text) == "" {
				return "", errEmpty
			}
			return "", err
		}
		return last.String(), nil
	}
}
