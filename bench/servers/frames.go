package servers

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
)

// longest is more bytes than either server lets a message or a string have.
const longest = 1 << 30

// A framer reads one message from one side of a connection, in its wire form.
// It reports whether a request ends with it, or the reply to one: replies come
// in the order of requests, so the nth of these ends belong together.
type framer func(from *bufio.Reader) (message []byte, ends bool, err error)

// framersOf recognises the protocol by the first bytes that the client sends.
func framersOf(from *bufio.Reader) (requests, replies framer, err error) {
	first, err := from.Peek(1)
	if err != nil {
		return nil, nil, err
	}
	switch first[0] {
	case '*': // every client sends its commands as arrays
		return redisRequest, redisReply, nil
	case 0: // the length of a startup message, which is small; its version follows
		const version3 = 3 << 16 // others ask for TLS, or cancel
		head, err := from.Peek(8)
		if err == nil && binary.BigEndian.Uint32(head[4:])>>16<<16 == version3 {
			return postgresRequests(), postgresReply, nil
		}
	}
	return anything, anything, nil
}

// anything passes bytes that we do not understand as they come.
func anything(from *bufio.Reader) (message []byte, ends bool, err error) {
	if _, err := from.Peek(1); err != nil {
		return nil, false, err
	}
	message = make([]byte, from.Buffered())
	_, err = io.ReadFull(from, message)
	return message, false, err
}

func redisRequest(from *bufio.Reader) (message []byte, ends bool, err error) {
	message, err = appendRESP(nil, from)
	return message, true, err
}

// redisReply takes pushes (RESP3), which answer no request, for no end.
func redisReply(from *bufio.Reader) (message []byte, ends bool, err error) {
	message, err = appendRESP(nil, from)
	return message, len(message) > 0 && message[0] != '>', err
}

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

// postgresRequests frames what a Postgres client sends. A request ends where
// the server will say that it is ready for the next one: with the startup
// message, which alone has no type, a simple query, a function call, a sync.
func postgresRequests() framer {
	begun := false
	return func(from *bufio.Reader) (message []byte, ends bool, err error) {
		if !begun {
			begun = true
			message, err = postgresMessage(from, 0)
			return message, true, err
		}
		message, err = postgresMessage(from, 1)
		return message, len(message) > 0 && bytes.IndexByte([]byte("QFS"), message[0]) >= 0, err
	}
}

// postgresReply frames what a Postgres server sends; "Z" is ready for query.
func postgresReply(from *bufio.Reader) (message []byte, ends bool, err error) {
	message, err = postgresMessage(from, 1)
	return message, len(message) > 0 && message[0] == 'Z', err
}

// postgresMessage reads a message: a type of so many bytes, a length that counts
// itself, the rest.
func postgresMessage(from *bufio.Reader, typeBytes int) ([]byte, error) {
	head, err := from.Peek(typeBytes + 4)
	if err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[typeBytes:])
	if length < 4 || length > longest {
		return nil, errors.New("not a message of Postgres")
	}
	message := make([]byte, typeBytes+int(length))
	_, err = io.ReadFull(from, message)
	return message, err
}
