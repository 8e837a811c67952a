package signature_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/events/signature"
)

// TestStandard: Sign makes the signature of the example in Standard Webhooks.
func TestStandard(t *testing.T) {
	secret, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	header := make(http.Header)
	signature.Sign(header, secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got, want := header.Get("Webhook-Signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

func TestVerify(t *testing.T) {
	secret, now, body := []byte("secret"), time.Unix(1_800_000_000, 0), []byte("body")
	signed := func(change func(h http.Header)) http.Header {
		h := make(http.Header)
		signature.Sign(h, secret, "id", now, body)
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
			h.Set(signature.HeaderSignature, strings.TrimPrefix(h.Get(signature.HeaderSignature), "v1,"))
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
