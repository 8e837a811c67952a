// Package signature signs webhooks and verifies them, as Standard Webhooks
// (https://www.standardwebhooks.com) describes: HMAC-SHA-256 over the id, the time
// and the body.
//
// It does no I/O and reads no clock. Sender and receiver share one secret.
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

// Sign sets the headers of a request with this body.
func Sign(header http.Header, secret []byte, id string, at time.Time, body []byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	header.Set(HeaderID, id)
	header.Set(HeaderTimestamp, timestamp)
	header.Set(HeaderSignature, "v1,"+base64.StdEncoding.EncodeToString(sum(secret, id, timestamp, body)))
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
