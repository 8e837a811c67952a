package get

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

var (
	// ErrNotHTTP reports bytes that do not begin like an answer of HTTP.
	ErrNotHTTP = errors.New("not an answer of HTTP")
	// ErrDiscarded reports an answer that must not be used, because its status or the length
	// of its body is not known for sure (RFC 9112, 6.3). Another attempt would not help.
	ErrDiscarded = errors.New("the answer contradicts HTTP")
)

// framing says where the body of an answer ends.
type framing int

const (
	untilClose framing = iota // with the connection
	byLength
	byChunks
	interim   // no body; another answer follows
	noFraming // the bytes that follow are of another protocol
)

// answerHead is what the header of an answer says about the bytes that follow.
type answerHead struct {
	framing framing
	length  int64 // of the body, if framing is byLength
}

// token has true for the bytes of which names of header fields consist.
var token = func() (table [256]bool) {
	for c := range len(table) {
		table[c] = httpguts.IsTokenRune(rune(c))
	}
	return table
}()

// isControl reports whether c must not be in the value of a header field.
func isControl(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f }

// plainHead reads a header, including its empty line, whose meaning is beyond doubt. It
// returns false for every other header, also for those that net/http accepts.
// It is for the common case, and allocates nothing.
func plainHead(raw []byte) (head answerHead, code int, plain bool) {
	const version = "HTTP/1.1 "
	old := bytes.HasPrefix(raw, []byte("HTTP/1.0 "))
	if len(raw) < len("HTTP/1.1 200\r\n") || !old && string(raw[:len(version)]) != version {
		return head, 0, false
	}
	status := raw[len(version) : len(version)+3]
	for _, c := range status {
		if c < '0' || c > '9' {
			return head, 0, false
		}
	}
	line, rest, _ := bytes.Cut(raw[len(version)+3:], lineFeed)
	line = bytes.TrimSuffix(line, carriageReturn)
	if len(line) > 0 && line[0] != ' ' {
		return head, 0, false
	}
	seen := false // a field about the length of the body
	for {
		line, rest, _ = bytes.Cut(rest, lineFeed)
		if line = bytes.TrimSuffix(line, carriageReturn); len(line) == 0 {
			break
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 {
			return head, 0, false
		}
		for _, c := range line[:colon] {
			if !token[c] {
				return head, 0, false
			}
		}
		for _, c := range line[colon+1:] {
			if isControl(c) {
				return head, 0, false
			}
		}
		switch name := line[:colon]; {
		case len(name) == len(contentLength) && strings.EqualFold(string(name), contentLength):
			value := bytes.Trim(line[colon+1:], " \t")
			if seen || len(value) == 0 || len(value) > 18 {
				return head, 0, false
			}
			for _, c := range value {
				if c < '0' || c > '9' {
					return head, 0, false
				}
				head.length = head.length*10 + int64(c-'0')
			}
			head.framing, seen = byLength, true
		case len(name) == len(transferEncoding) && strings.EqualFold(string(name), transferEncoding):
			if seen || old || !strings.EqualFold(string(bytes.Trim(line[colon+1:], " \t")), "chunked") {
				return head, 0, false
			}
			head.framing, seen = byChunks, true
		case len(name) == len(trailer) && strings.EqualFold(string(name), trailer):
			return head, 0, false
		}
	}
	code = int(status[0]-'0')*100 + int(status[1]-'0')*10 + int(status[2]-'0')
	return head.forStatus(code), code, true
}

// forStatus returns the framing of an answer to a GET with this status.
func (h answerHead) forStatus(code int) answerHead {
	switch {
	case code == 101:
		return answerHead{framing: noFraming}
	case code >= 100 && code <= 199:
		return answerHead{framing: interim}
	case code == 204, code == 304:
		return answerHead{framing: byLength}
	}
	return h
}

// forMethod returns the framing of an answer to a request with this method.
func (h answerHead) forMethod(method string, code int) answerHead {
	switch {
	case h.framing == interim:
	case method == "HEAD":
		return answerHead{framing: byLength}
	case method == "CONNECT" && code >= 200 && code <= 299:
		return answerHead{framing: noFraming}
	}
	return h
}

const (
	contentLength    = "Content-Length"
	transferEncoding = "Transfer-Encoding"
	contentEncoding  = "Content-Encoding"
	trailer          = "Trailer"
)

var lineFeed, carriageReturn = []byte("\n"), []byte("\r")

// mendHead reads any header, including its empty line, as browsers and curl do. It returns a
// header with the same meaning that net/http accepts, and the status. The error wraps
// ErrDiscarded if there is no such header.
//
// Lines without a name, or with bytes in the name that names cannot have, are left out.
// Control characters in values become spaces (RFC 9110, 5.5). A continued line is joined to
// the line before it (RFC 9112, 5.2).
func mendHead(raw []byte) (mended []byte, head answerHead, code int, err error) {
	line, rest, _ := bytes.Cut(raw[slop(raw):], lineFeed)
	mended, code, http11, err := mendStatus(line)
	if err != nil {
		return nil, head, 0, err
	}
	var lengths, codings, contentCodings []string
	for _, field := range fieldsOf(rest) {
		switch {
		case strings.EqualFold(field.name, contentLength):
			lengths = append(lengths, field.value)
			continue
		case strings.EqualFold(field.name, transferEncoding):
			if http11 { // HTTP/1.0 has no such field
				codings = append(codings, strings.Split(field.value, ",")...)
			}
			continue
		case strings.EqualFold(field.name, contentEncoding):
			contentCodings = append(contentCodings, field.value)
			continue
		case strings.EqualFold(field.name, trailer):
			continue
		}
		mended = append(mended, field.name+":"+field.value+"\n"...)
	}
	chunked, body, more := bodyCodings(codings)
	if all := append(contentCodings, more...); len(all) > 0 {
		mended = append(mended, contentEncoding+":"+strings.Join(all, ",")+"\n"...)
	}
	bare := answerHead{}.forStatus(code)
	if chunked {
		head.framing = byChunks
		mended = append(mended, transferEncoding+":chunked\n"...)
	} else if body == byLength {
		length, known, err := lengthOf(lengths)
		if err != nil && bare.framing == untilClose {
			return nil, head, 0, err
		}
		if known {
			head = answerHead{byLength, length}
			mended = append(mended, contentLength+":"+strconv.FormatInt(length, 10)+"\n"...)
		}
	}
	return append(mended, '\n'), head.forStatus(code), code, nil
}

// maxSlop is how many line ends and spaces may precede a status line. Some servers send
// them after an earlier body.
const maxSlop = 4

// slop returns the length of the line ends and spaces before the status line.
func slop(raw []byte) int {
	n := 0
	for n < len(raw) && n < maxSlop && (raw[n] == '\r' || raw[n] == '\n' || raw[n] == ' ' || raw[n] == '\t') {
		n++
	}
	return n
}

// headSize returns the length of the header at the beginning of the received bytes, including
// its empty line and what precedes its status line, or 0 if the header has no end.
func headSize(received []byte) int {
	before := slop(received)
	if size := headLen(received[before:]); size > 0 {
		return before + size
	}
	return 0
}

// beginsAnswer reports whether raw begins an answer. known is false if raw is too short to
// tell. "ICY" is what servers of audio streams say instead of "HTTP/1.0".
func beginsAnswer(raw []byte) (yes, known bool) {
	rest := raw[slop(raw):]
	for _, word := range []string{"HTTP", "ICY "} {
		n := min(len(rest), len(word))
		if strings.EqualFold(string(rest[:n]), word[:n]) {
			return n == len(word), n == len(word)
		}
	}
	return false, true
}

// frameHead is the length of the header of an HTTP/2 frame: 3 bytes of length, then type,
// flags and stream.
const frameHead = 9

// isHTTP2 reports whether raw begins with what an HTTP/2 server sends first: a frame of the
// type SETTINGS or GOAWAY, of stream 0. A client sends the other text first.
func isHTTP2(raw []byte) bool {
	const settings, goaway = 4, 7
	frame := len(raw) >= frameHead && (raw[3] == settings || raw[3] == goaway) && string(raw[5:9]) == "\x00\x00\x00\x00"
	return frame || bytes.HasPrefix(raw, []byte(preface))
}

// preface is the beginning of what a client of HTTP/2 sends first.
const preface = "PRI * HTTP/2"

// mayBeHTTP2 reports whether raw is too short to tell whether it is HTTP/2.
func mayBeHTTP2(raw []byte) bool {
	return len(raw) < frameHead && raw[0] == 0 || len(raw) < len(preface) && strings.HasPrefix(preface, string(raw))
}

// mendStatus reads a status line. http11 is false if the version is before 1.1.
func mendStatus(line []byte) (mended []byte, code int, http11 bool, err error) {
	words := strings.FieldsFunc(string(clean(line)), func(r rune) bool { return r == ' ' || r == '\t' })
	if len(words) == 0 {
		return nil, 0, false, fmt.Errorf("%w: status line %.80q", ErrDiscarded, line)
	}
	version, isHTTP := strings.CutPrefix(strings.ToUpper(words[0]), "HTTP")
	http11 = isHTTP && version >= "/1.1"
	if major, _, _ := strings.Cut(version, "."); len(major) > len("/1") { // two digits, such as 10.0
		http11 = true
	}
	if len(words) > 1 && len(words[1]) == 3 {
		code, err = strconv.Atoi(words[1])
	}
	if len(words) < 2 || len(words[1]) != 3 || err != nil || code < 0 {
		return nil, 0, false, fmt.Errorf("%w: status line %.80q", ErrDiscarded, line)
	}
	version = "HTTP/1.0 "
	if http11 {
		version = "HTTP/1.1 "
	}
	return append([]byte(version), strings.Join(words[1:], " ")+"\n"...), code, http11, nil
}

// clean returns text with spaces in place of control characters.
func clean(text []byte) []byte {
	cleaned := bytes.Clone(text)
	for i, c := range cleaned {
		if isControl(c) {
			cleaned[i] = ' '
		}
	}
	return bytes.Trim(cleaned, " \t")
}

// field is a header field.
type field struct{ name, value string }

// fieldsOf returns the valid fields of the lines after a status line.
func fieldsOf(lines []byte) (fields []field) {
	valid := false // the line before, which a continued line belongs to
	for line := range bytes.Lines(lines) {
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		if line[0] == ' ' || line[0] == '\t' {
			if valid {
				fields[len(fields)-1].value += " " + string(clean(line))
			}
			continue
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		name = bytes.TrimRight(name, " \t")
		if valid = found && isName(name); valid {
			fields = append(fields, field{string(name), string(clean(value))})
		}
	}
	return fields
}

// isName reports whether net/http accepts name as the name of a field.
func isName(name []byte) bool {
	for _, c := range name {
		if !token[c] && c != ' ' {
			return false
		}
	}
	return len(name) > 0
}

// bodyCodings reads the values of Transfer-Encoding. chunked says whether the body consists
// of chunks; otherwise body says how its end is found. The transfer codings besides chunked
// are returned as more: they are removed like content codings that were applied last.
//
// Words that are no transfer codings, such as identity and binary, are ignored, as browsers
// do. chunked counts only once (RFC 9112, 7.1). If another coding follows it, the body ends
// with the connection (RFC 9112, 6.3).
func bodyCodings(values []string) (chunked bool, body framing, more []string) {
	body = byLength
	for _, value := range values {
		switch value = strings.ToLower(strings.Trim(value, " \t")); value {
		case "chunked":
			chunked = true
		case "gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd":
			if chunked {
				more = append(more, "chunked")
			}
			chunked, body, more = false, untilClose, append(more, value)
		}
	}
	return chunked, body, more
}

// lengthOf reads the values of Content-Length. known is false if they name no length, or one
// that is larger than any body. The error wraps ErrDiscarded.
func lengthOf(values []string) (length int64, known bool, err error) {
	for value := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if value = strings.TrimPrefix(strings.Trim(value, " \t"), "+"); value == "" {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 63)
		if errors.Is(err, strconv.ErrRange) {
			n, err = math.MaxInt64, nil
		}
		if err != nil || known && int64(n) != length {
			return 0, false, fmt.Errorf("%w: Content-Length %.80q", ErrDiscarded, values)
		}
		length, known = int64(n), true
	}
	return length, known && length < math.MaxInt64, nil
}
