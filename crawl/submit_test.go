package crawl

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestSubmitOnce: repeats of a submission get the answers of the first call and change nothing, through each of the ways
// to a crawl, and another content is refused.
func TestSubmitOnce(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, c Config) {
		run, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		attached, err := Attach(t.Context(), c.Location())
		if err != nil {
			t.Fatal(err)
		}
		s := Submission{ID: [32]byte{1}, Key: "k1", Check: true,
			Seeds: []string{"https://a.test/", "http://user@", "https://a.test/", "http://127.0.0.1/", "https://b.test/x", "a b"}}
		first, err := run.Submit(t.Context(), s)
		if err != nil || first.Repeated {
			t.Fatalf("Submit = %+v, %v", first, err)
		}
		var words []string
		for _, a := range first.Answers {
			words = append(words, a.Answer+string(a.Reason))
		}
		if want := "added refusedmalformed seen refusedaddress added refusedmalformed"; strings.Join(words, " ") != want {
			t.Fatalf("the answers are %q, want %q: %+v", words, want, first.Answers)
		}
		if _, err := run.Seed(t.Context(), s.Seeds); err != nil {
			t.Fatal(err)
		}
		repeat := func(h *Handle) {
			t.Helper()
			before, err := h.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			again, err := h.Submit(t.Context(), s)
			if err != nil || !again.Repeated || !reflect.DeepEqual(again.Answers, first.Answers) {
				t.Errorf("a repeat got %+v, %v, want %+v", again, err, first)
			}
			other := s
			other.Seeds = s.Seeds[:3]
			if _, err := h.Submit(t.Context(), other); !errors.Is(err, ErrOtherPayload) {
				t.Errorf("other seeds: %v, want ErrOtherPayload", err)
			}
			after, err := h.Status(t.Context())
			if err != nil || !reflect.DeepEqual(before.Stats.Books, after.Stats.Books) {
				t.Errorf("after repeats the books are %+v (%v), want %+v", after.Stats.Books, err, before.Stats.Books)
			}
		}
		repeat(run.Handle)
		repeat(attached)
		if err := run.Close(); err != nil {
			t.Fatal(err)
		}
		repeat(attached)
		next := s
		next.Chunk = 1
		if got, err := attached.Submit(t.Context(), next); err != nil || got.Repeated || got.Answers[0].Answer != "seen" {
			t.Errorf("the next chunk got %+v, %v", got, err)
		}
		if audit, err := attached.Audit(t.Context()); err != nil || !audit.Balanced {
			t.Errorf("the audit says %+v, %v", audit, err)
		}
		for i, bad := range []Submission{{}, {Seeds: make([]string, SubmissionSeeds+1)}, {Seeds: s.Seeds, Chunk: -1},
			{Seeds: s.Seeds, Key: "a b"}, {Seeds: s.Seeds, TTL: -1}} {
			if got, err := attached.Submit(t.Context(), bad); err == nil {
				t.Errorf("the invalid submission %d got %+v, want an error", i, got)
			}
		}
	})
}
