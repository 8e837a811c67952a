package servers

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
)

// longest is the maximum length that appendRESP accepts. Redis strings have at most 512
// MiB.
const longest = 1 << 30

// appendRESP reads one value of RESP2 or RESP3 and appends its bytes to message. A line
// begins with the type of a value. The rest of the line is the value, its length, or
// the number of values that follow.
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
		case '$', '=', '!': // n bytes and a line end follow; -1 means null
			if n >= 0 {
				at := len(message)
				message = append(message, make([]byte, n+2)...)
				if _, err := io.ReadFull(from, message[at:]); err != nil {
					return message, err
				}
			}
		case '*', '~', '>':
			values += max(n, 0)
		case '%': // n pairs follow
			values += 2 * n
		case '|': // n pairs of attributes follow, and then the value with these attributes
			values += 2*n + 1
		}
	}
	return message, nil
}
