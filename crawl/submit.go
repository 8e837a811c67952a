package crawl

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// ErrOtherPayload reports a repeated call whose content differs from that of the first call.
var ErrOtherPayload = frontier.ErrOtherPayload

// Limits of a Submission.
const (
	SubmissionSeeds = 1000                   // of one chunk
	SubmissionTTL   = 24 * time.Hour         // the default of Submission.TTL
	SubmissionKey   = frontier.MaxSubmission // bytes of Submission.Key
)

// Submission is one chunk of a submission. A submission is a list of seeds that a client gives to a crawl, and gives again
// if it got no answer. A chunk is at most SubmissionSeeds of them.
type Submission struct {
	// ID is the identity of the submission, such as a hash of the client's name and its key. It is the same for all
	// chunks.
	ID    [32]byte `json:"id"`
	Chunk int      `json:"chunk"` // 0 for the first one
	Seeds []string `json:"seeds"`
	// Last says that no chunk follows. It is a part of the content: a repeat with fewer or more chunks is refused.
	Last bool `json:"last,omitempty"`
	// Check says that the hosts of the seeds are looked up first: see Handle.SeedChecked. A repeat looks nothing up.
	Check bool `json:"check,omitempty"`
	// TTL is how long the answer is kept at least; 0 means SubmissionTTL. A repeat after it is a new submission.
	TTL time.Duration `json:"ttl,omitempty"`
	// Key is in the records and the events of the seeds that are added, as submission: 1 to SubmissionKey visible ASCII
	// characters, or empty for none. It is not a secret.
	Key string `json:"key,omitempty"`
}

// Submitted is the answer to a Submission.
type Submitted struct {
	Answers  []SeedAnswer `json:"answers"`            // index for index
	Repeated bool         `json:"repeated,omitempty"` // an earlier call got these answers, and this one changed nothing
}

// Submit adds the seeds of a chunk to the crawl, once for its ID and number. If a caller got no answer, also because a process or
// a server crashed, it calls Submit again. Then all calls together have one effect, and each call without an error
// has the same answers. The answers contain only what can be repeated: SeedAnswer.Message has no detail of a rule. The
// error wraps ErrOtherPayload if the first call had other seeds, another Key or another Last.
//
// In a directory, the answers are stored in the step that adds the seeds. In Redis, the verdict on each seed is stored in
// the step of its partition, and the whole answer last. Where Postgres decides about exact URLs, its row of a waiting URL
// names the submission. docs/guide/submissions.md says what holds after a server has lost data.
func (h *Handle) Submit(ctx context.Context, s Submission) (Submitted, error) {
	if err := s.check(); err != nil {
		return Submitted{}, err
	}
	return askAgain(ctx, h, verbSubmit, s)
}

// check returns what is wrong with a submission.
func (s *Submission) check() error {
	var errs []error
	if len(s.Seeds) == 0 || len(s.Seeds) > SubmissionSeeds {
		errs = append(errs, fmt.Errorf("a chunk has %d seeds, want 1 to %d", len(s.Seeds), SubmissionSeeds))
	}
	if s.Chunk < 0 || s.TTL < 0 {
		errs = append(errs, fmt.Errorf("the chunk is %d and the TTL %v, want 0 or more", s.Chunk, s.TTL))
	}
	if s.Key != "" {
		errs = append(errs, CheckKey(s.Key))
	}
	return errors.Join(errs...)
}

// CheckKey returns an error unless key is 1 to SubmissionKey visible ASCII characters.
func CheckKey(key string) error {
	invisible := func(r rune) bool { return r <= ' ' || r > '~' }
	if key == "" || len(key) > SubmissionKey || strings.ContainsFunc(key, invisible) {
		return fmt.Errorf("want 1 to %d visible ASCII characters without spaces", SubmissionKey)
	}
	return nil
}

// chunk returns the identity of a change for the store: of one with a name, by a client's ID and a number, with the content parts.
func chunk(name string, id [32]byte, number int, ttl time.Duration, parts ...string) frontier.Chunk {
	sum := sha256.New()
	sum.Write(binary.BigEndian.AppendUint64(append([]byte(name+"\x00"), id[:]...), uint64(number)))
	c := frontier.Chunk{ID: [32]byte(sum.Sum(nil)), TTL: cmp.Or(ttl, SubmissionTTL)}
	sum.Reset()
	for _, part := range append([]string{name}, parts...) {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		sum.Write([]byte(part))
	}
	c.Digest = [32]byte(sum.Sum(nil))
	return c
}

// submit implements Handle.Submit.
func (ses *session) submit(ctx context.Context, s Submission) (r Submitted, err error) {
	if err := s.check(); err != nil { // of another process
		return r, err
	}
	call := fetcher.Submission{Chunk: chunk("seeds", s.ID, s.Chunk, s.TTL, append([]string{s.Key, strconv.FormatBool(s.Last)}, s.Seeds...)...), Key: s.Key, Seeds: s.Seeds}
	call.Judge = func(i int) frontier.Reason {
		reason, _ := ses.plan.checkSeed(ctx, s.Seeds[i], s.Check)
		return reason
	}
	answers, repeated, err := ses.worker.Submit(ctx, call)
	if err != nil {
		return r, err
	}
	r = Submitted{Answers: make([]SeedAnswer, len(answers)), Repeated: repeated}
	for i, a := range answers {
		if _, err := seed.Parse(ses.plan.canon, a.Raw); err != nil {
			a.URL, a.Err = "", errors.New(seed.Fault(a.Raw, err, seed.WantSeed))
		}
		r.Answers[i] = newSeedAnswer(a)
	}
	if !repeated {
		ses.noteRefused(s.Seeds, r.Answers)
	}
	return r, nil
}

// askAgain is like ask, for a verb that can be repeated: if the process that runs the crawl dies before it answers, askAgain asks again, for
// up to handoverTime.
func askAgain[Q, A any](ctx context.Context, h *Handle, v verb[Q, A], question Q) (answer A, err error) {
	for begun := time.Now(); ; {
		answer, err = ask(ctx, h, v, question)
		if _, broken := errors.AsType[*control.BrokenCallError](err); !broken || time.Since(begun) > handoverTime || ctx.Err() != nil {
			return answer, err
		}
	}
}
