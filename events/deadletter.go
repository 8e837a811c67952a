package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Retried counts the results of a Retry.
type Retried struct {
	Accepted int // accepted by the sink, and removed from the dead letters
	Refused  int // refused again, and kept with the new reason
	Left     int // not sent, because the sink is unavailable or ctx ended
}

// Retry sends dead letters of a relay to a sink again, one after the other. It sends the
// events with the given ids, or all dead letters if no ids are given. If the sink is
// unavailable, Retry stops with an error that wraps an *AwayError.
//
// The relay can run at the same time. The order of the dead letters relative to the events
// that the relay sends is not defined. Retry saves the answers of the sink once a second.
// If the process dies, events that were accepted in the last second stay dead letters.
func Retry(ctx context.Context, progress Progress, sink Sink, name string, ids ...string) (done Retried, err error) {
	letters, err := progress.Dead(ctx, name)
	if err != nil {
		return done, fmt.Errorf("events: read the dead letters of relay %q: %w", name, err)
	}
	if len(ids) > 0 {
		letters = slices.DeleteFunc(letters, func(l DeadLetter) bool { return !slices.Contains(ids, l.Event.ID) })
	}
	r := retry{progress: progress, name: name, saved: time.Now()}
	for _, letter := range letters {
		if err = r.send(ctx, sink, letter); err == nil && time.Since(r.saved) >= time.Second {
			err = r.save(ctx)
		}
		if err != nil {
			break
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	err = errors.Join(err, r.save(last))
	r.done.Left = len(letters) - r.done.Accepted - r.done.Refused
	return r.done, err
}

// retry is one call of Retry. It collects the answers of the sink that are not saved yet.
type retry struct {
	progress Progress
	name     string
	done     Retried
	accepted []string
	refused  []DeadLetter
	saved    time.Time
}

func (r *retry) send(ctx context.Context, sink Sink, letter DeadLetter) error {
	errs := sink.Send(ctx, []Event{letter.Event})
	if len(errs) != 1 {
		return fmt.Errorf("events: the sink answered %d of 1 events", len(errs))
	}
	if refusal, refused := errors.AsType[*RefusedError](errs[0]); refused {
		letter.Reason, letter.At, letter.Resend = refusal.Reason, time.Now().UTC(), false
		r.refused = append(r.refused, letter)
		r.done.Refused++
		return nil
	}
	if err := errs[0]; err != nil {
		if _, away := errors.AsType[*AwayError](err); !away {
			err = &AwayError{Err: err}
		}
		return fmt.Errorf("events: send %s again: %w", letter.Event.ID, err)
	}
	r.accepted = append(r.accepted, letter.Event.ID)
	r.done.Accepted++
	return nil
}

func (r *retry) save(ctx context.Context) error {
	if len(r.accepted) > 0 {
		if _, err := r.progress.Discard(ctx, r.name, r.accepted...); err != nil {
			return fmt.Errorf("events: remove dead letters of relay %q: %w", r.name, err)
		}
	}
	if len(r.refused) > 0 {
		if err := r.progress.Revise(ctx, r.name, r.refused); err != nil {
			return fmt.Errorf("events: keep why relay %q was refused again: %w", r.name, err)
		}
	}
	r.accepted, r.refused, r.saved = nil, nil, time.Now()
	return nil
}

// Mark marks the dead letters of the events with the given ids, or all letters if no ids are given, and returns how many it
// has marked. It is for implementations of Progress.Resend.
func Mark(letters []DeadLetter, ids ...string) (marked int) {
	for i := range letters {
		if len(ids) == 0 || slices.Contains(ids, letters[i].Event.ID) {
			letters[i].Resend = true
			marked++
		}
	}
	return marked
}

// lookForMarks is how often a relay looks for dead letters that it is to send again.
const lookForMarks = time.Second

// resend sends marked dead letters again until ctx ends. Until then it also reads their number, which other processes change.
func (r *relay) resend(ctx context.Context) {
	var away backoff
	for pause := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err := r.resendOnce(ctx); err != nil && ctx.Err() == nil {
			pause = max(away.next(), lookForMarks)
			r.warnOfLetters(err)
			continue
		}
		pause, away = lookForMarks, backoff{}
	}
}

func (r *relay) warnOfLetters(err error) {
	r.Logger.Warn("dead letters are not sent again yet", slog.String("relay", r.Name), slog.Any("err", err))
}

// resendOnce sends the dead letters that are marked now.
func (r *relay) resendOnce(ctx context.Context) error {
	saved, _, err := r.Progress.Load(ctx, r.Name)
	if err != nil {
		return err
	}
	r.updateState(func(s *State) { s.Dead = saved.Dead })
	if saved.Resend == 0 {
		return nil
	}
	letters, err := r.Progress.Dead(ctx, r.Name)
	var ids []string
	for i := range letters {
		if letters[i].Resend {
			ids = append(ids, letters[i].Event.ID)
		}
	}
	if err != nil || len(ids) == 0 {
		return err
	}
	sending, cancel, err := r.tenure.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	done, err := Retry(sending, r.Progress, r.Sink, r.Name, ids...)
	r.updateState(func(s *State) { s.Dead -= min(s.Dead, uint64(done.Accepted)) })
	r.Logger.Info("dead letters were sent again", slog.String("relay", r.Name), slog.Int("accepted", done.Accepted),
		slog.Int("refused", done.Refused), slog.Int("left", done.Left))
	return err
}
