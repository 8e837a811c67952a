package frontiertest

import (
	"context"
	"errors"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

var _ frontier.Submitter = (*Memory)(nil)

// note is the answer to a call of frontier.Submitter.
type note struct {
	digest   [32]byte
	end      time.Time
	verdicts []frontier.Verdict
	retried  int
	text     string
}

// once returns the note of c, and calls make for the answer if there is none.
func (m *Memory) once(c frontier.Chunk, make func(*note) error) (answer *note, repeated bool, err error) {
	m.submitting.Lock()
	defer m.submitting.Unlock()
	now := m.cfg.Now()
	if before := m.notes[c.ID]; before != nil && now.Before(before.end) {
		if before.digest != c.Digest {
			return nil, false, frontier.ErrOtherPayload
		}
		return before, true, nil
	}
	answer = &note{digest: c.Digest, end: now.Add(c.TTL)}
	if err := make(answer); err != nil {
		return answer, false, err
	}
	m.notes[c.ID] = answer
	return answer, false, nil
}

// Submit implements frontier.Submitter.
func (m *Memory) Submit(ctx context.Context, c frontier.Chunk, lines []frontier.Line) ([]frontier.Verdict, bool, error) {
	answer, repeated, err := m.once(c, func(answer *note) error {
		answer.verdicts = make([]frontier.Verdict, len(lines))
		var offers []frontier.Offer
		var at []int
		for i, line := range lines {
			if line.Refused != "" {
				answer.verdicts[i] = frontier.Verdict{Answer: frontier.Refused, Reason: line.Refused}
				continue
			}
			offers, at = append(offers, line.Offer), append(at, i)
		}
		verdicts, err := m.Add(ctx, offers)
		for j, verdict := range verdicts {
			answer.verdicts[at[j]] = verdict
		}
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return answer.verdicts, repeated, nil
}

// Answered implements frontier.Submitter.
func (m *Memory) Answered(_ context.Context, c frontier.Chunk) ([]frontier.Verdict, bool, error) {
	none := errors.New("no answer")
	answer, _, err := m.once(c, func(*note) error { return none })
	if errors.Is(err, none) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return answer.verdicts, true, nil
}

// Keep implements frontier.Submitter.
func (m *Memory) Keep(_ context.Context, c frontier.Chunk, text string) (string, error) {
	none := errors.New("no answer")
	answer, _, err := m.once(c, func(answer *note) error {
		if answer.text = text; text == "" {
			return none
		}
		return nil
	})
	if err != nil && !errors.Is(err, none) {
		return "", err
	}
	return answer.text, nil
}

// RetryOnce implements frontier.Submitter.
func (m *Memory) RetryOnce(ctx context.Context, c frontier.Chunk, of frontier.Failures) (int, bool, error) {
	answer, repeated, err := m.once(c, func(answer *note) (err error) {
		answer.retried, err = m.Retry(ctx, of)
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return answer.retried, repeated, nil
}
