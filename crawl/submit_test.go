package crawl

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
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

// TestRetryAndDropOnce: repeats of a retry and of a drop with a key have the first answer and no second effect, although URLs fail and
// wait again, and a rule was withdrawn.
func TestRetryAndDropOnce(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, c Config) {
		run, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		waitingURLs(t, run.ses)
		drop := func(rule, key string, again bool, want Dropped, version uint64) {
			t.Helper()
			got, repeated, err := run.DropOnce(t.Context(), rule, "a@b", "a test", key)
			if err != nil || repeated != again || got != (DroppedOnce{version, want}) {
				t.Errorf("DropOnce(%s, %s) = %+v, repeated %t, %v, want %+v of version %d, %t", rule, key, got, repeated, err, want, version, again)
			}
		}
		retry := func(key string, again bool, want Retried) {
			t.Helper()
			got, repeated, err := run.RetryOnce(t.Context(), Failures{Outcome: frontier.Dropped}, "a@b", key)
			if err != nil || repeated != again || !reflect.DeepEqual(got, want) {
				t.Errorf("RetryOnce(%s) = %+v, repeated %t, %v, want %+v, %t", key, got, repeated, err, want, again)
			}
		}
		drop("host=b.test", "k1", false, Dropped{100, 1}, 1)
		drop("host=b.test", "k1", true, Dropped{100, 1}, 1)
		withdrawn := Retried{URLs: 100, Withdrawn: []string{"host=b.test"}, Version: 2}
		retry("k1", false, withdrawn)
		retry("k1", true, withdrawn)
		drop("host=b.test", "k1", true, Dropped{100, 1}, 1) // although the URLs wait again
		drop("host=b.test", "k2", false, Dropped{100, 1}, 3)
		retry("k1", true, withdrawn) // although the URLs are dropped again
		if _, _, err := run.DropOnce(t.Context(), "host=c.test", "a@b", "", "k1"); !errors.Is(err, ErrOtherPayload) {
			t.Errorf("another rule under the key: %v, want ErrOtherPayload", err)
		}
		if _, _, err := run.RetryOnce(t.Context(), Failures{}, "a@b", "k1"); !errors.Is(err, ErrOtherPayload) {
			t.Errorf("other failures under the key: %v, want ErrOtherPayload", err)
		}
		if _, _, err := run.RetryOnce(t.Context(), Failures{}, "a@b", ""); err == nil {
			t.Error("a retry without a key has no error")
		}
		history, err := run.History(t.Context())
		if err != nil || len(history) != 3 || history[0].Why != "a test (key k1)" || history[1].Why != "retry of dropped URLs (key k1)" {
			t.Errorf("the history is %+v, %v", history, err)
		}
		st, err := run.Status(t.Context())
		if err != nil || st.Stats.Failed != 100 || st.Stats.Queued != 200 {
			t.Errorf("the books are %+v, %v", st.Stats.Books, err)
		}
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
}
