package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Header is the name of the header field with the key.
const Header = "Idempotency-Key"

// MaxKeyBytes is the largest length of a key.
const MaxKeyBytes = 255

// issuedPrefix is the beginning of all keys that the server issues.
const issuedPrefix = "issued-"

var (
	// ErrNoKey reports a request without an Idempotency-Key.
	ErrNoKey = errors.New("idempotency: no Idempotency-Key")
	// ErrInvalidKey reports an Idempotency-Key that is not valid.
	ErrInvalidKey = errors.New("idempotency: invalid Idempotency-Key")
)

// ParseKey returns the key in the values of the header field Idempotency-Key. A key has 1 to
// MaxKeyBytes characters of visible ASCII. It is sent as a string of RFC 9651, such as "k1"
// with the quotes, or bare, such as k1: both are the same key. A bare key contains no comma,
// because a proxy joins two fields with a comma. Parameters behind the string are refused. No
// error contains the key. The error is ErrNoKey if there is no field, or else ErrInvalidKey.
func ParseKey(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", ErrNoKey
	case 1:
	default:
		return "", fmt.Errorf("%w: %d fields, want one", ErrInvalidKey, len(values))
	}
	key := strings.Trim(values[0], " \t")
	if strings.HasPrefix(key, `"`) {
		var err error
		if key, err = unquote(key); err != nil {
			return "", err
		}
	} else if strings.Contains(key, ",") {
		return "", fmt.Errorf("%w: a comma outside quotes: send one key", ErrInvalidKey)
	}
	if len(key) == 0 || len(key) > MaxKeyBytes {
		return "", fmt.Errorf("%w: %d characters, want 1 to %d", ErrInvalidKey, len(key), MaxKeyBytes)
	}
	if strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return "", fmt.Errorf("%w: a character that is not visible ASCII", ErrInvalidKey)
	}
	return key, nil
}

// unquote returns the value of a string of RFC 9651, section 4.2.5, which begins with a quote.
func unquote(text string) (string, error) {
	var value strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' && i == len(text)-1:
			return value.String(), nil
		case c == '"':
			return "", fmt.Errorf("%w: text after the closing quote", ErrInvalidKey)
		case c == '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", fmt.Errorf("%w: a backslash that escapes neither a quote nor a backslash", ErrInvalidKey)
			}
			value.WriteByte(text[i])
		default:
			value.WriteByte(c)
		}
	}
	return "", fmt.Errorf("%w: the closing quote is missing", ErrInvalidKey)
}

// hash returns the SHA-256 of the parts and a body. Each part is preceded by its length, so that
// different parts never have the same bytes.
func hash(body []byte, parts ...string) [32]byte {
	sum := sha256.New()
	for _, part := range parts {
		_ = binary.Write(sum, binary.BigEndian, uint64(len(part))) // a hash returns no error
		sum.Write([]byte(part))
	}
	sum.Write(body)
	return [32]byte(sum.Sum(nil))
}

// slotID is the ID of an issued key.
func slotID(caller, key string) ID { return hash(nil, "slot", caller, key) }

// requestOf returns what selects and compares a request. The query is a part of the payload.
func requestOf(caller, method, path, key, query string, body []byte) Request {
	if strings.HasPrefix(key, issuedPrefix) {
		return Request{ID: slotID(caller, key), Digest: hash(body, method, path, query), Issued: true}
	}
	return Request{ID: hash(nil, "key", caller, method, path, key), Digest: hash(body, query)}
}
