package fetcher

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/internal/preference"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/robots"
	"github.com/bloomfrontier/crawler/internal/stage"
)

const (
	tdmPath = "/.well-known/tdmrep.json"
	// tdmPart and the name of an origin are the name of an entry in a host's blob (see appendBlob). It has the
	// time of the next request, s since 1970, and the file.
	tdmPart = "tdm "
	// maxTDMBlob is the largest file in a blob, in bytes. A larger one is requested again with the next lease.
	maxTDMBlob = 2 << 10
	// tdmRetry is the time until a tdmrep.json is requested again after a request that failed. After an answer,
	// the time is that of a robots.txt.
	tdmRetry = time.Hour
)

// tdmState is the state of the tdmrep.json of an origin.
type tdmState struct {
	file  *preference.File // nil means that there is none
	body  []byte
	askAt time.Time // when it is requested again
}

// needsTDM reports whether the tdmrep.json of an item's origin must be requested first. Otherwise it sets
// h.wishes.file. Only the method run may call it.
func (h *holding) needsTDM(item *frontier.Item, url canon.URL) bool {
	switch {
	case h.cfg.Policy().Preferences != policy.FullPreferences:
		h.wishes.file = nil
		return false
	case item.Fingerprint == h.tdmCleared: // its file may be gone (see ruleBook)
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	state := h.tdm[url.Origin()]
	if state == nil || !time.Now().Before(state.askAt) {
		return true
	}
	h.tdmCleared, h.wishes.file = item.Fingerprint, state.file.Find(url.Path())
	return false
}

// askTDM requests the tdmrep.json of an item's origin, unless robots.txt forbids it. It follows no
// redirects. What is no such file counts as none.
func (h *holding) askTDM(stop context.Context, item *frontier.Item, url canon.URL) error {
	target, err := h.cfg.Canon.Parse(url.Origin() + tdmPath)
	if err != nil {
		return err
	}
	state := &tdmState{askAt: time.Now().Add(robots.Lifetime)}
	access := robots.Allow
	if !h.present().host.IgnoreRobots {
		access, _ = h.access(url.Origin(), tdmPath)
	}
	if access != robots.Disallow {
		if err := h.fetchTDM(stop, target, state); err != nil {
			return err
		}
	}
	h.tdmCleared, h.wishes.file = item.Fingerprint, state.file.Find(url.Path())
	h.mu.Lock()
	for other := range h.tdm {
		if len(h.tdm) < maxOrigins {
			break
		}
		delete(h.tdm, other)
	}
	h.tdm[url.Origin()], h.changed = state, true
	h.mu.Unlock()
	h.noteRules(url.Origin())
	return nil
}

// fetchTDM requests a tdmrep.json and sets state.
func (h *holding) fetchTDM(stop context.Context, target canon.URL, state *tdmState) error {
	stage.Fetch.Begin()
	defer stage.None.Begin()
	share, _ := h.memory.Take(h.hard, 0) // an empty share never waits
	defer share.Release()
	answer, err := h.requestFile(stop, target, maxPark, preference.MaxFile+1, share)
	if err != nil {
		fault := get.Classify(err)
		switch {
		case errors.Is(err, errStop), errors.Is(err, errDead):
			return err
		case fault.Aborted:
			return errStop
		case fault.Local:
			h.awaitMachine(err)
		}
		state.askAt = time.Now().Add(tdmRetry)
		return nil
	}
	defer answer.Release()
	if err := h.keepRobots(target, answer); err != nil {
		h.noteFailure(err)
		return errStop
	}
	switch robots.FromStatus(answer.Status) {
	case robots.Found:
	case robots.Unreachable:
		state.askAt = time.Now().Add(tdmRetry)
		return nil
	default:
		return nil
	}
	if answer.Wall().Reason != "" || answer.Cut != nil || answer.Damage != nil {
		state.askAt = time.Now().Add(tdmRetry)
		return nil
	}
	body := append([]byte(nil), answer.Body...)
	if state.file, err = preference.ParseFile(body); err != nil {
		h.cfg.Logger.Debug("no preferences in tdmrep.json", slog.String("url", target.String()), slog.Any("err", err))
		return nil
	}
	state.body = body
	return nil
}

// bytes is about how much memory the state takes.
func (s *tdmState) bytes() int64 { return 512 + 4*int64(len(s.body)) }

// appendBinary appends the state. It returns no bytes if the state is too large for a blob.
func (s *tdmState) appendBinary(b []byte) []byte {
	if len(s.body) > maxTDMBlob {
		return nil
	}
	return append(binary.AppendVarint(b, s.askAt.Unix()), s.body...)
}

// readTDM is the inverse of appendBinary. It returns nil if the bytes are no such state.
func readTDM(b []byte, now time.Time) *tdmState {
	at, n := binary.Varint(b)
	if n <= 0 {
		return nil
	}
	s := &tdmState{askAt: time.Unix(at, 0)}
	if s.askAt.Sub(now) > robots.Lifetime {
		s.askAt = now
	}
	if len(b) > n {
		body := append([]byte(nil), b[n:]...)
		file, err := preference.ParseFile(body)
		if err != nil {
			return nil
		}
		s.file, s.body = file, body
	}
	return s
}
