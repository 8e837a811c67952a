package signature_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/bloomfrontier/crawler/events/signature"
)

// TestStandard: Sign makes the signature of the example in Standard Webhooks.
func TestStandard(t *testing.T) {
	secrets, err := signature.ParseSecrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	header := make(http.Header)
	signature.Sign(header, secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got, want := header.Get("Webhook-Signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

func TestVerify(t *testing.T) {
	secret, now, body := []byte("secret"), time.Unix(1_800_000_000, 0), []byte("body")
	signed := func(change func(h http.Header)) http.Header {
		h := make(http.Header)
		signature.Sign(h, [][]byte{[]byte("of another receiver"), secret}, "id", now, body)
		if change != nil {
			change(h)
		}
		return h
	}
	for name, tc := range map[string]struct {
		header http.Header
		secret string
		now    time.Time
		body   string
		want   error
	}{
		"valid":            {header: signed(nil)},
		"old":              {header: signed(nil), now: now.Add(signature.MaxAge + time.Second), want: signature.ErrAge},
		"from the future":  {header: signed(nil), now: now.Add(-signature.MaxAge - time.Second), want: signature.ErrAge},
		"just not too old": {header: signed(nil), now: now.Add(signature.MaxAge)},
		"body":             {header: signed(nil), body: "bodY", want: signature.ErrInvalid},
		"secret":           {header: signed(nil), secret: "another", want: signature.ErrInvalid},
		"no headers":       {header: make(http.Header), want: signature.ErrInvalid},
		"id":               {header: signed(func(h http.Header) { h.Set(signature.HeaderID, "other") }), want: signature.ErrInvalid},
		"time":             {header: signed(func(h http.Header) { h.Set(signature.HeaderTimestamp, "1800000001") }), want: signature.ErrInvalid},
		"not a time":       {header: signed(func(h http.Header) { h.Set(signature.HeaderTimestamp, "now") }), want: signature.ErrInvalid},
		"no version": {header: signed(func(h http.Header) {
			h.Set(signature.HeaderSignature, strings.TrimPrefix(strings.Fields(h.Get(signature.HeaderSignature))[1], "v1,"))
		}), want: signature.ErrInvalid},
		"empty": {header: signed(func(h http.Header) { h.Set(signature.HeaderSignature, "v1,") }), want: signature.ErrInvalid},
		// While a secret is replaced, a sender signs with both secrets.
		"one of several": {header: signed(func(h http.Header) {
			h.Set(signature.HeaderSignature, "v1,AAAA v2,x "+h.Get(signature.HeaderSignature))
		})},
	} {
		if tc.secret == "" {
			tc.secret = string(secret)
		}
		if tc.now.IsZero() {
			tc.now = now
		}
		if tc.body == "" {
			tc.body = string(body)
		}
		if err := signature.Verify(tc.header, []byte(tc.secret), tc.now, []byte(tc.body)); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// TestLibraryVerifies: the library of Standard Webhooks verifies what Sign signs with the same text of a secret, also with one
// of several, and Verify what the library signs.
func TestLibraryVerifies(t *testing.T) {
	first := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a secret of 32 bytes, the first."))
	second := base64.StdEncoding.EncodeToString([]byte("a secret of 32 bytes, a second.."))
	secrets, err := signature.ParseSecrets(first + "\n" + second + "\n")
	if err != nil {
		t.Fatal(err)
	}
	now, body := time.Now(), []byte(`{"specversion":"1.0"}`)
	header := make(http.Header)
	signature.Sign(header, secrets, "id-1", now, body)
	for i, text := range []string{first, second} {
		library, err := standardwebhooks.NewWebhook(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := library.Verify(body, header); err != nil {
			t.Errorf("secret %d: the library refuses the signature: %v", i, err)
		}
		signed, err := library.Sign("id-2", now, body)
		if err != nil {
			t.Fatal(err)
		}
		theirs := http.Header{signature.HeaderID: {"id-2"}, signature.HeaderTimestamp: {strconv.FormatInt(now.Unix(), 10)}, signature.HeaderSignature: {signed}}
		if err := signature.Verify(theirs, secrets[i], now, body); err != nil {
			t.Errorf("secret %d: Verify refuses the signature of the library: %v", i, err)
		}
	}
}

func TestParseSecrets(t *testing.T) {
	bytes := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for text, want := range map[string]int{ // how many; 0 means ErrSecret
		bytes(24): 1, bytes(64): 1, "whsec_" + bytes(32): 1, strings.TrimRight(bytes(32), "="): 1, " " + bytes(32) + "\r\n": 1, bytes(24) + "\n\n" + bytes(25): 2,
		"": 0, "\n": 0, "whsec_": 0, bytes(23): 0, bytes(65): 0, "geheim": 0, bytes(32) + " geheim": 0, strings.Repeat("ä", 30): 0, strings.Repeat("-_", 20): 0,
	} {
		secrets, err := signature.ParseSecrets(text)
		if len(secrets) != want || (want == 0) != errors.Is(err, signature.ErrSecret) {
			t.Errorf("%q: %d secrets, error %v; want %d", text, len(secrets), err, want)
		}
	}
}
