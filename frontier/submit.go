package frontier

import (
	"context"
	"errors"
	"time"
)

// ErrOtherPayload reports that an earlier call with the same Chunk.ID had another content. The call had no effect.
var ErrOtherPayload = errors.New("frontier: the same submission was made before with another content")

// Submitter is a Store whose changes can be repeated with the same effect and the same answer. Implementations are safe
// for concurrent use.
//
// A caller that got no answer repeats its call, also after a crash of its process or of the store. Calls with one ID can run
// at the same time; each of them gets the same answer. After Chunk.TTL a call with the ID is a new one.
type Submitter interface {
	// Submit does for the lines what Add does for offers, and stores each verdict in the step that queues the line. A call
	// with the same Chunk does it once: lines with a verdict keep it, and count no more in Stats. If a call returned no error, repeats of it
	// return its verdicts, and repeated is true. After an error, some of the lines can have a verdict. If the first
	// call with Chunk.ID had another Chunk.Digest, the error is ErrOtherPayload.
	Submit(ctx context.Context, c Chunk, lines []Line) (verdicts []Verdict, repeated bool, err error)
	// Answered returns the verdicts of Submit, if a call with the Chunk has returned no error. Errors are those of Submit.
	Answered(ctx context.Context, c Chunk) (verdicts []Verdict, answered bool, err error)
	// RetryOnce does what Control.Retry does, and stores its progress with each step. A repeat continues after the last
	// step. If a call returned no error, repeats of it return its number and queue nothing, and repeated is true. Errors
	// are those of Submit.
	RetryOnce(ctx context.Context, c Chunk, of Failures) (n int, repeated bool, err error)
	// Keep stores an answer, unless the Chunk has one, and returns the one that it has. An empty answer is not stored. Errors
	// are those of Submit.
	Keep(ctx context.Context, c Chunk, answer string) (kept string, err error)
}

// Chunk identifies a change that can be repeated.
type Chunk struct {
	ID     [32]byte      // of this change only; for example a hash of what the client calls it
	Digest [32]byte      // of its content
	TTL    time.Duration // how long its answer is kept at least; must be positive
}

// Line is a URL of a chunk.
type Line struct {
	Offer
	// Refused says why the rules of the caller refuse the line; empty means that the line is offered. The reasons of the
	// first call with an ID count: repeats can give others, because the rules can have changed. The Offer is set in either case, unless
	// the line never has one, such as a malformed line.
	Refused Reason
}

// AppendVerdicts appends verdicts in the form in which stores keep them. The zero Verdict stands for a line without
// a verdict.
func AppendVerdicts(b []byte, verdicts []Verdict) []byte {
	for _, v := range verdicts {
		switch v.Answer {
		case Added:
			b = append(b, 'a')
		case Seen:
			b = append(b, 's')
		case Refused:
			b = append(append(b, 'r', byte(len(v.Reason))), v.Reason...)
		default:
			b = append(b, '-')
		}
	}
	return b
}

var errVerdicts = errors.New("frontier: damaged verdicts")

// ParseVerdicts is the inverse of AppendVerdicts.
func ParseVerdicts(b []byte) (verdicts []Verdict, err error) {
	for len(b) > 0 {
		var v Verdict
		switch letter := b[0]; {
		case letter == 'a':
			v.Answer = Added
		case letter == 's':
			v.Answer = Seen
		case letter == 'r' && len(b) > 1 && len(b) >= 2+int(b[1]):
			n := int(b[1])
			v = Verdict{Refused, Reason(b[2 : 2+n])}
			b = b[1+n:]
		case letter != '-':
			return nil, errVerdicts
		}
		verdicts, b = append(verdicts, v), b[1:]
	}
	return verdicts, nil
}
