package signature_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/events/signature"
)

// A receiver of webhooks reads the body and verifies it before it uses the event.
func ExampleVerify() {
	secrets, err := signature.ParseSecrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") // the relay has the same
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		if err := signature.Verify(r.Header, secrets[0], time.Now(), body); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "event %s", r.Header.Get(signature.HeaderID))
	}

	for _, forged := range []bool{false, true} {
		const body = `{"specversion":"1.0"}`
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		signature.Sign(request.Header, secrets, "5f3a-0", time.Now(), []byte(body))
		if forged {
			request.Body = io.NopCloser(strings.NewReader(`{"specversion":"9.9"}`))
		}
		answer := httptest.NewRecorder()
		handler(answer, request)
		fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))
	}
	// Output:
	// 200 event 5f3a-0
	// 401 signature: the request is not signed with this secret
}
