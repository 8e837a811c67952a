package servers

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
)

// longest is more bytes than Redis lets a string have.
const longest = 1 << 30

// appendRESP appends one value of RESP2 or RESP3 to message. A line begins with
// the value's type and holds the value itself, or its length or the number of
// values that follow.
func appendRESP(message []byte, from *bufio.Reader) ([]byte, error) {
	for values := 1; values > 0; values-- {
		line, err := from.ReadBytes('\n')
		message = append(message, line...)
		if err != nil {
			return message, err
		}
		n := 0
		if bytes.IndexByte([]byte("$=!*~>%|"), line[0]) >= 0 {
			n, err = strconv.Atoi(string(bytes.TrimSpace(line[1:])))
			if err == nil && n > longest {
				err = errors.New("not a value of Redis")
			}
			if err != nil {
				return message, err
			}
		}
		switch line[0] {
		case '$', '=', '!': // so many bytes and a line end; -1 is null
			if n >= 0 {
				at := len(message)
				message = append(message, make([]byte, n+2)...)
				if _, err := io.ReadFull(from, message[at:]); err != nil {
					return message, err
				}
			}
		case '*', '~', '>':
			values += max(n, 0)
		case '%': // pairs
			values += 2 * n
		case '|': // pairs of attributes, and then the value they belong to
			values += 2*n + 1
		}
	}
	return message, nil
}
