// Package signature signs webhooks and verifies them, as Standard Webhooks
// (https://www.standardwebhooks.com) describes: HMAC-SHA-256 over the id, the time
// and the body.
//
// It does no I/O and reads no clock. Sender and receiver share one secret, whose text ParseSecrets decodes as the
// libraries of Standard Webhooks do.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed request.
const (
	HeaderID        = "Webhook-Id"        // the id of the event, or of the batch
	HeaderTimestamp = "Webhook-Timestamp" // the time of this attempt, in seconds since 1970
	HeaderSignature = "Webhook-Signature" // "v1," and the signature in base 64; several are separated by spaces
)

// MaxAge is the largest difference between a request's time and the receiver's time, in
// either direction. Verify refuses a request with a larger difference, because it might be
// a replay.
const MaxAge = 5 * time.Minute

// ErrInvalid reports a request that was not signed with the secret, or whose
// headers are missing or malformed.
var ErrInvalid = errors.New("signature: the request is not signed with this secret")

// ErrAge reports a valid signature whose time is more than MaxAge in the past or future.
var ErrAge = errors.New("signature: the request's time is more than 5 minutes from now")

// ErrSecret reports a text that is no secret.
var ErrSecret = errors.New("signature: a secret is the base64 form of 24 to 64 random bytes, with or without whsec_ before it, as 'head -c 32 /dev/urandom | base64' makes it")

// ParseSecrets returns the secrets in a text, which white space separates: one or more. The text of a secret is base64
// of 24 to 64 bytes, with or without padding, and with or without the prefix "whsec_". The error is ErrSecret.
func ParseSecrets(text string) (secrets [][]byte, err error) {
	for field := range strings.FieldsSeq(text) {
		secret, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimPrefix(field, "whsec_"), "="))
		if err != nil || len(secret) < 24 || len(secret) > 64 {
			return nil, ErrSecret
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 {
		return nil, ErrSecret
	}
	return secrets, nil
}

// Sign sets the headers of a request with this body. It signs with each of the secrets, so that a receiver can have
// any of them, for example while a secret is changed.
func Sign(header http.Header, secrets [][]byte, id string, at time.Time, body []byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	header.Set(HeaderID, id)
	header.Set(HeaderTimestamp, timestamp)
	var all []string
	for _, secret := range secrets {
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(sum(secret, id, timestamp, body)))
	}
	header.Set(HeaderSignature, strings.Join(all, " "))
}

// Verify reports whether a request with this header and body was signed with
// secret, within MaxAge of now. It compares in constant time. The error is
// ErrInvalid or ErrAge.
func Verify(header http.Header, secret []byte, now time.Time, body []byte) error {
	id, timestamp := header.Get(HeaderID), header.Get(HeaderTimestamp)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || id == "" {
		return ErrInvalid
	}
	want := sum(secret, id, timestamp, body)
	for _, signed := range strings.Fields(header.Get(HeaderSignature)) {
		text, isV1 := strings.CutPrefix(signed, "v1,")
		got, err := base64.StdEncoding.DecodeString(text)
		if !isV1 || err != nil || !hmac.Equal(got, want) {
			continue
		}
		if age := now.Sub(time.Unix(seconds, 0)); age > MaxAge || age < -MaxAge {
			return ErrAge
		}
		return nil
	}
	return ErrInvalid
}

func sum(secret []byte, id, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return mac.Sum(nil)
}
