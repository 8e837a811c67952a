package inbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrDocument reports a document that has no key, because it is not one JSON value or
// because two parsers might read it differently.
var ErrDocument = errors.New("inbox: the document has no key")

// maxDepth is the largest depth of nested arrays and objects, so that a hostile document
// cannot exhaust the stack.
const maxDepth = 100

// KeyFromOffset returns a key for a record of a log such as Kafka, made from its position:
// "TOPIC/PARTITION/OFFSET".
//
// The key is the same if a record is read again. It differs for two copies of an event that
// the producer wrote twice, because each copy has its own offset. Do not use it if topics
// are deleted and created again, because the offsets of a new topic begin at 0.
func KeyFromOffset(topic string, partition int32, offset int64) string {
	return topic + "/" + strconv.Itoa(int(partition)) + "/" + strconv.FormatInt(offset, 10)
}

// KeyFromJSON returns a key for an event without an id, made from its content. The key is a
// SHA-256 of the document, in 64 hex digits. Two documents have the same key if and only if
// they are equal as JSON. The order of names, white space, escapes in strings, and the form of
// numbers (1, 1.0 and 10e-1) do not matter.
//
// The argument omit has JSON Pointers (RFC 6901), such as "/meta/sent_at". The key does not
// depend on the members to which they point. Omit members that can differ between two
// deliveries of an event. A pointer to a missing member or to an element of an array has no
// effect.
//
// Two events with the same content have the same key. So do not use KeyFromJSON for events
// that can occur twice with the same content, such as "a cup of tea was sold". Or add to the
// document something that tells such events apart, such as the number of the receipt.
//
// The error is ErrDocument if two parsers might read the document differently, because
// an object has a name twice or a string is not Unicode. It is also ErrDocument if arrays
// and objects are nested more than 100 deep.
func KeyFromJSON(document []byte, omit ...string) (string, error) {
	for _, pointer := range omit {
		if !strings.HasPrefix(pointer, "/") {
			return "", fmt.Errorf("inbox: %q is no JSON Pointer to a member: it begins with a slash", pointer)
		}
	}
	if !utf8.Valid(document) || hasLoneSurrogate(document) {
		return "", fmt.Errorf("%w: a text in it is not Unicode", ErrDocument)
	}
	c := canonical{decoder: json.NewDecoder(bytes.NewReader(document)), omit: omit}
	c.decoder.UseNumber()
	form, err := c.value(nil, "", 0)
	if err == nil {
		_, err = c.decoder.Token()
		switch {
		case err == io.EOF:
			err = nil
		case err == nil:
			err = errors.New("there is more behind the value")
		}
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrDocument, err)
	}
	sum := sha256.Sum256(form)
	return hex.EncodeToString(sum[:]), nil
}

// canonical reads a document and writes the form that is hashed. Do not change the form.
// Otherwise all keys change, and handled events are handled again.
//
//	null, true, false    n, t, f
//	a number             #DIGITSeEXPONENT, DIGITS without zeros at both ends
//	a string             "LENGTH:BYTES
//	an array             [VALUE…]
//	an object            {STRING VALUE…}, its names in the order of their bytes
type canonical struct {
	decoder *json.Decoder
	omit    []string
}

// value appends the form of the next value. pointer is the JSON Pointer to it.
func (c *canonical) value(form []byte, pointer string, depth int) ([]byte, error) {
	token, err := c.decoder.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("it is more than %d levels deep", maxDepth)
	}
	switch token := token.(type) {
	case nil:
		return append(form, 'n'), nil
	case bool:
		return append(form, strconv.FormatBool(token)[0]), nil
	case string:
		return appendText(form, token), nil
	case json.Number:
		return appendNumber(form, token.String())
	}
	if token == json.Delim('{') {
		return c.object(form, pointer, depth)
	}
	return c.array(form, pointer, depth)
}

func (c *canonical) array(form []byte, pointer string, depth int) ([]byte, error) {
	form = append(form, '[')
	for i := 0; c.decoder.More(); i++ {
		var err error
		if form, err = c.value(form, pointer+"/"+strconv.Itoa(i), depth+1); err != nil {
			return nil, err
		}
	}
	_, err := c.decoder.Token()
	return append(form, ']'), err
}

func (c *canonical) object(form []byte, pointer string, depth int) ([]byte, error) {
	type member struct {
		name string
		form []byte // name and value; nil if the member is omitted
	}
	var members []member
	for c.decoder.More() {
		token, err := c.decoder.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // the decoder returns no other type here
		below := pointer + "/" + escapePointer.Replace(name)
		value, err := c.value(appendText(nil, name), below, depth+1)
		if err != nil {
			return nil, err
		}
		if slices.Contains(c.omit, below) {
			value = nil
		}
		members = append(members, member{name, value})
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	form = append(form, '{')
	for i, m := range members {
		if i > 0 && members[i-1].name == m.name {
			return nil, fmt.Errorf("an object in it has the name %q twice", m.name)
		}
		form = append(form, m.form...)
	}
	_, err := c.decoder.Token()
	return append(form, '}'), err
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

func appendText(form []byte, text string) []byte {
	form = strconv.AppendInt(append(form, '"'), int64(len(text)), 10)
	return append(append(form, ':'), text...)
}

// appendNumber appends the exact value of a number, which can have any length. It does not
// use floats, because two numbers that differ only after the 17th digit would have the same
// key.
func appendNumber(form []byte, text string) ([]byte, error) {
	digits, exponent := text, int64(0)
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.ParseInt(text[i+1:], 10, 32); err != nil {
			return nil, fmt.Errorf("the exponent of %.40s is too large", text)
		}
		digits = text[:i]
	}
	digits, negative := strings.CutPrefix(digits, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(trimmed) - len(fraction))
	if trimmed == "" {
		negative, exponent = false, 0
	}
	form = append(form, '#')
	if negative {
		form = append(form, '-')
	}
	form = append(append(form, trimmed...), 'e')
	return strconv.AppendInt(form, exponent, 10), nil
}

// hasLoneSurrogate reports whether the document has an escape from \uD800 to \uDFFF that is
// not half of a pair. The decoder replaces all such escapes by the same character.
func hasLoneSurrogate(document []byte) bool {
	high := false // the last character was the first half of a pair
	for i := 0; i < len(document); i++ {
		unit := uint64(0)
		if document[i] == '\\' && i+1 < len(document) {
			i++
			if document[i] == 'u' && i+4 < len(document) {
				unit, _ = strconv.ParseUint(string(document[i+1:i+5]), 16, 16) // 0 for digits that the decoder refuses
				i += 4
			}
		}
		low := unit >= 0xDC00 && unit < 0xE000
		if high != low {
			return true
		}
		high = unit >= 0xD800 && unit < 0xDC00
	}
	return high
}
