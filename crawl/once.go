package crawl

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// keepQuestion is a call of frontier.Submitter.Keep.
type keepQuestion struct {
	Chunk  frontier.Chunk `json:"chunk"`
	Answer string         `json:"answer"`
}

type retryOnceQuestion struct {
	Chunk frontier.Chunk `json:"chunk"`
	Failures
}

type retriedOnce struct {
	URLs     int  `json:"urls"`
	Repeated bool `json:"repeated"`
}

// keep stores an answer to a change, unless there is one, and returns the stored one. If there is none and answer is nil, found is false.
func keep[A any](ctx context.Context, h *Handle, c frontier.Chunk, answer *A) (kept A, found bool, err error) {
	text := ""
	if answer != nil {
		b, err := json.Marshal(answer)
		if err != nil {
			return kept, false, err
		}
		text = string(b)
	}
	if text, err = askAgain(ctx, h, verbKeep, keepQuestion{c, text}); err != nil || text == "" {
		return kept, false, err
	}
	return kept, true, json.Unmarshal([]byte(text), &kept)
}

// keyID returns the identity of changes with a key.
func keyID(key string) [32]byte { return sha256.Sum256([]byte("key\x00" + key)) }

// keyed returns the reason of a change that is made under a key, as the history has it.
func keyed(why, key string) string {
	if why == "" {
		return "key " + key
	}
	return why + " (key " + key + ")"
}

// changeOnce makes a change under a key, unless the history has it since then.
func (h *Handle) changeOnce(ctx context.Context, c Change, key string, since time.Time) (version uint64, err error) {
	c.Why = keyed(c.Why, key)
	all, err := h.History(ctx)
	if err != nil {
		return 0, err
	}
	for _, v := range slices.Backward(all) {
		if v.Why == c.Why && !v.Time.Before(since) {
			return v.Number, nil
		}
	}
	changed, err := h.Change(ctx, c)
	return numberOf(changed.Version), err
}

// retryPlan is what the first call of RetryOnce found.
type retryPlan struct {
	Begun     time.Time `json:"begun"`
	Withdrawn []string  `json:"withdrawn,omitempty"`
	Left      []string  `json:"left,omitempty"`
}

// RetryOnce does what Retry does, once for a key (see CheckKey). A repeat within SubmissionTTL, also after a crash, has the same answer and
// no second effect: URLs that have failed since the first call stay failed. The reason of the version that withdraws drop rules names
// the key. The result repeated reports that an earlier call was answered. The error wraps ErrOtherPayload if the first call
// selected other URLs.
func (h *Handle) RetryOnce(ctx context.Context, of Failures, who, key string) (r Retried, repeated bool, err error) {
	if err := CheckKey(key); err != nil {
		return r, false, err
	}
	content, err := json.Marshal(of)
	if err != nil {
		return r, false, err
	}
	id := keyID(key)
	if of.Outcome == frontier.Dropped {
		plan, err := h.planRetry(ctx, of, chunk("retry plan", id, 0, 0, string(content)))
		if err != nil {
			return r, false, err
		}
		if r.Withdrawn, r.Left = plan.Withdrawn, plan.Left; r.Withdrawn != nil {
			c := Change{Who: who, Why: "retry of dropped URLs"}
			for _, rule := range r.Withdrawn {
				c.Values = append(c.Values, "drop-="+rule)
			}
			if r.Version, err = h.changeOnce(ctx, c, key, plan.Begun); err != nil {
				return r, false, err
			}
		}
	}
	once, err := askAgain(ctx, h, verbRetryOnce, retryOnceQuestion{chunk("retry", id, 0, 0, string(content)), of})
	r.URLs = once.URLs
	return r, once.Repeated, err
}

// planRetry returns which drop rules a retry withdraws. The first call decides it.
func (h *Handle) planRetry(ctx context.Context, of Failures, c frontier.Chunk) (retryPlan, error) {
	plan, found, err := keep[retryPlan](ctx, h, c, nil)
	if found || err != nil {
		return plan, err
	}
	status, err := h.Status(ctx)
	if err != nil {
		return plan, err
	}
	plan = retryPlan{Begun: time.Now().UTC().Truncate(time.Second)}
	for _, rule := range targetsOf(status.Drops) {
		if of.Host == "" || rule.Host() == of.Host {
			plan.Withdrawn = append(plan.Withdrawn, rule.String())
		} else {
			plan.Left = append(plan.Left, rule.String())
		}
	}
	plan, _, err = keep(ctx, h, c, &plan)
	return plan, err
}

// DroppedOnce is the result of Handle.DropOnce.
type DroppedOnce struct {
	Version uint64 `json:"version"` // of the policy, with the rule
	Dropped
}

// DropOnce makes the rule of a drop with Change and then calls Drop, once for a key (see CheckKey). The reason of the rule's version names the key. A
// repeat within SubmissionTTL has the same answer and drops nothing, also if the rule was withdrawn meanwhile. If the first call was
// interrupted, a repeat goes on, and URLs counts what it drops itself. The result repeated reports that an earlier call was
// answered. The error wraps ErrOtherPayload if the first call had another rule.
func (h *Handle) DropOnce(ctx context.Context, rule, who, why, key string) (r DroppedOnce, repeated bool, err error) {
	if err := CheckKey(key); err != nil {
		return r, false, err
	}
	id := keyID(key)
	begun, now := chunk("drop plan", id, 0, 0, rule), time.Now().UTC().Truncate(time.Second)
	if now, _, err = keep(ctx, h, begun, &now); err != nil {
		return r, false, err
	}
	answer := chunk("drop", id, 0, 0, rule)
	if r, repeated, err = keep[DroppedOnce](ctx, h, answer, nil); repeated || err != nil {
		return r, repeated, err
	}
	if r.Version, err = h.changeOnce(ctx, Change{Values: []string{"drop+=" + rule}, Who: who, Why: why}, key, now); err != nil {
		return r, false, err
	}
	if r.Dropped, err = h.Drop(ctx, rule); err != nil {
		return r, false, fmt.Errorf("drop %s: %w", rule, err)
	}
	r, _, err = keep(ctx, h, answer, &r)
	return r, false, err
}
