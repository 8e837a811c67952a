package files

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// The files of a relay, in DIR/relays/NAME.
const (
	relaysDir  = "relays"
	cursorFile = "cursor.json"
	runLock    = "run.lock"  // held while the relay runs
	saveLock   = "save.lock" // held while a file is changed
)

// heldFor is the result of Hold.Renew. The operating system ends the lock of a process only
// when the process ends.
const heldFor = time.Hour

// format is the version of the format of cursorFile and of the dead letters.
const format = 1

// state is the content of cursorFile. It contains the number of the file of dead letters,
// and how many bytes of that file are valid. So one write of cursorFile changes the cursor
// and the dead letters together.
type state struct {
	Format      int            `json:"format"`
	Cursor      *events.Cursor `json:"cursor"` // nil means that the relay is not registered yet
	At          time.Time      `json:"at"`
	Dead        uint64         `json:"dead"`
	Resend      uint64         `json:"resend,omitempty"` // letters that are marked
	Letters     int            `json:"letters"`          // number of the file of dead letters; 0 means that there is none
	LetterBytes int64          `json:"letter_bytes"`
	Term        uint64         `json:"term"` // of the newest Hold
}

// Progress stores the progress of relays in a directory. It is safe for concurrent use,
// also by several processes on one machine.
type Progress struct {
	dir string
	mu  sync.Mutex // one change at a time in this process
}

var _ events.Progress = (*Progress)(nil)

// NewProgress returns the progress of the relays of a crawl or a worker. dir is the
// directory of the crawl or worker. NewProgress creates no files. The first Lock or Save
// creates them.
func NewProgress(dir string) *Progress { return &Progress{dir: filepath.Join(dir, relaysDir)} }

func (p *Progress) path(name, file string) string { return filepath.Join(p.dir, name, file) }

// create creates the directory of a relay.
func (p *Progress) create(name string) error {
	if err := events.CheckName(name); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(p.dir, name), 0o700); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	return errors.Join(durable.SyncDir(vfs.Default, filepath.Dir(p.dir)), durable.SyncDir(vfs.Default, p.dir))
}

// Acquire implements events.Progress. The holder has a lock of the operating system, which
// ends with its process. If the file of the lock is removed, another process can acquire the
// name. Then the old holder has an old term.
func (p *Progress) Acquire(ctx context.Context, name string) (events.Hold, error) {
	if err := p.create(name); err != nil {
		return nil, err
	}
	lock, err := durable.Lock(vfs.Default, p.path(name, runLock))
	if errors.Is(err, durable.ErrHeld) {
		return nil, fmt.Errorf("%w: %s", events.ErrLocked, filepath.Join(p.dir, name))
	}
	if err != nil {
		return nil, fmt.Errorf("files: lock relay %q: %w", name, err)
	}
	h := &hold{progress: p, name: name, lock: lock}
	err = p.update(ctx, name, func(s *state) error {
		s.Term++
		h.term = s.Term
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return h, nil
}

// hold implements events.Hold.
type hold struct {
	progress *Progress
	name     string
	lock     io.Closer
	term     uint64
}

// Term implements events.Hold.
func (h *hold) Term() uint64 { return h.term }

// check returns ErrSuperseded if the stored state has another term. If the file of the state was
// removed, the next Save writes it again.
func (h *hold) check(s *state, stored bool) error {
	if stored && s.Term != h.term {
		return fmt.Errorf("%w: %s has term %d, not %d", events.ErrSuperseded, h.progress.path(h.name, cursorFile), s.Term, h.term)
	}
	return nil
}

// Renew implements events.Hold.
func (h *hold) Renew(context.Context) (time.Duration, error) {
	s, stored, err := h.progress.load(h.name)
	if err == nil {
		err = h.check(&s, stored)
	}
	return heldFor, err
}

// Release implements events.Hold.
func (h *hold) Release(context.Context) error { return h.lock.Close() }

// Names implements events.Progress.
func (p *Progress) Names(context.Context) (names []string, err error) {
	dirs, err := os.ReadDir(p.dir) // sorted by name
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	for _, dir := range dirs {
		if _, known, err := p.Load(context.Background(), dir.Name()); known || err != nil && events.CheckName(dir.Name()) == nil {
			names = append(names, dir.Name()) // Load returns the error again
		}
	}
	return names, nil
}

// Load implements events.Progress.
func (p *Progress) Load(_ context.Context, name string) (events.Saved, bool, error) {
	s, known, err := p.load(name)
	if err != nil || !known || s.Cursor == nil {
		return events.Saved{}, false, err
	}
	return events.Saved{Cursor: *s.Cursor, Dead: s.Dead, Resend: s.Resend, At: s.At}, true, nil
}

// load reads the state of a relay. The result stored is false if the relay has no state.
func (p *Progress) load(name string) (s state, stored bool, err error) {
	if err := events.CheckName(name); err != nil {
		return s, false, err
	}
	text, err := os.ReadFile(p.path(name, cursorFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil && s.Format != format {
		err = fmt.Errorf("format is %d, want %d", s.Format, format)
	}
	if err != nil {
		return s, false, fmt.Errorf("files: %s: %w", p.path(name, cursorFile), err)
	}
	return s, true, nil
}

// Save implements events.Hold.
func (h *hold) Save(ctx context.Context, cursor events.Cursor, letters []events.DeadLetter) error {
	p, name := h.progress, h.name
	return p.update(ctx, name, func(s *state) error {
		if err := h.check(s, s.Format != 0); err != nil {
			return err
		}
		s.Term, s.Cursor, s.At = h.term, &cursor, time.Now().UTC()
		if len(letters) == 0 {
			return nil
		}
		text, err := lines(letters)
		if err != nil {
			return err
		}
		s.Letters = cmp.Or(s.Letters, 1)
		file, err := durable.OpenAt(vfs.Default, p.letters(name, s.Letters), s.LetterBytes)
		if err != nil {
			return err
		}
		_, err = file.WriteAt(text, s.LetterBytes)
		if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
			return err
		}
		s.Dead, s.LetterBytes = s.Dead+uint64(len(letters)), s.LetterBytes+int64(len(text))
		return nil
	})
}

// lines returns the JSON lines of dead letters.
func lines(letters []events.DeadLetter) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for i := range letters {
		if err := encoder.Encode(&letters[i]); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

func (p *Progress) letters(name string, number int) string {
	return p.path(name, fmt.Sprintf("dead-%d.jsonl", number))
}

// update changes the state of a relay, in one step.
func (p *Progress) update(ctx context.Context, name string, edit func(*state) error) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := os.Stat(filepath.Join(p.dir, name)); err != nil {
		if err := p.create(name); err != nil {
			return err
		}
	}
	unlock, err := p.lockFiles(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock.Close()) }()
	s, _, err := p.load(name)
	if err != nil {
		return err
	}
	before := s.Letters
	if err := edit(&s); err != nil {
		return fmt.Errorf("files: save relay %q: %w", name, err)
	}
	s.Format = format
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := replace(p.path(name, cursorFile), append(text, '\n')); err != nil {
		return fmt.Errorf("files: save relay %q: %w", name, err)
	}
	if before != 0 && before != s.Letters {
		err = os.Remove(p.letters(name, before))
	}
	return err
}

// lockFiles waits until no other process changes the files of a relay, and locks them.
func (p *Progress) lockFiles(ctx context.Context, name string) (io.Closer, error) {
	for {
		lock, err := durable.Lock(vfs.Default, p.path(name, saveLock))
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, durable.ErrHeld) {
			return nil, fmt.Errorf("files: lock relay %q: %w", name, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("files: wait for %s: %w (%w)", p.path(name, saveLock), ctx.Err(), err)
		case <-time.After(5 * time.Millisecond): // the lock is held for some milliseconds only
		}
	}
}

// Dead implements events.Progress.
func (p *Progress) Dead(ctx context.Context, name string) ([]events.DeadLetter, error) {
	for {
		s, _, err := p.load(name)
		if err != nil {
			return nil, err
		}
		letters, err := p.read(name, s)
		if !errors.Is(err, fs.ErrNotExist) {
			return letters, err
		}
		if now, _, err := p.load(name); err != nil || now.Letters == s.Letters { // a new number means that the letters were rewritten in another file
			return nil, errors.Join(err, fmt.Errorf("files: %s is gone: %d dead letters are lost", p.letters(name, s.Letters), s.Dead))
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (p *Progress) read(name string, s state) (letters []events.DeadLetter, err error) {
	if s.Dead == 0 {
		return nil, nil
	}
	file, err := os.Open(p.letters(name, s.Letters))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in := bufio.NewReader(io.LimitReader(file, s.LetterBytes))
	for {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			break
		}
		var l events.DeadLetter
		if err == nil {
			err = json.Unmarshal(bytes.TrimSpace(text), &l)
		}
		if err != nil {
			return nil, fmt.Errorf("files: %s: letter %d: %w", file.Name(), len(letters)+1, err)
		}
		letters = append(letters, l)
	}
	if uint64(len(letters)) != s.Dead {
		return nil, fmt.Errorf("files: %s has %d letters, want %d", file.Name(), len(letters), s.Dead)
	}
	return letters, nil
}

// Revise implements events.Progress.
func (p *Progress) Revise(ctx context.Context, name string, letters []events.DeadLetter) error {
	revised := make(map[string]*events.DeadLetter)
	for i := range letters {
		revised[letters[i].Event.ID] = &letters[i]
	}
	return p.rewrite(ctx, name, func(all []events.DeadLetter) []events.DeadLetter {
		for i := range all {
			if l := revised[all[i].Event.ID]; l != nil {
				all[i].Reason, all[i].At, all[i].Resend = l.Reason, l.At, l.Resend
			}
		}
		return all
	})
}

// Discard implements events.Progress.
func (p *Progress) Discard(ctx context.Context, name string, ids ...string) (removed int, err error) {
	unwanted := make(map[string]bool)
	for _, id := range ids {
		unwanted[id] = true
	}
	err = p.rewrite(ctx, name, func(all []events.DeadLetter) []events.DeadLetter {
		removed = len(all)
		all = slices.DeleteFunc(all, func(l events.DeadLetter) bool { return len(ids) == 0 || unwanted[l.Event.ID] })
		removed -= len(all)
		return all
	})
	return removed, err
}

// Resend implements events.Progress.
func (p *Progress) Resend(ctx context.Context, name string, ids ...string) (marked int, err error) {
	err = p.rewrite(ctx, name, func(all []events.DeadLetter) []events.DeadLetter {
		marked = events.Mark(all, ids...)
		return all
	})
	return marked, err
}

// rewrite changes the dead letters of a relay, in one step. It does not call the function
// edit if there are no dead letters.
func (p *Progress) rewrite(ctx context.Context, name string, edit func(all []events.DeadLetter) (left []events.DeadLetter)) error {
	if s, _, err := p.load(name); err != nil || s.Dead == 0 {
		return err
	}
	return p.update(ctx, name, func(s *state) error {
		letters, err := p.read(name, *s)
		if err != nil {
			return err
		}
		left := edit(letters)
		text, err := lines(left)
		if err != nil {
			return err
		}
		s.Letters++
		s.Resend = 0
		for i := range left {
			if left[i].Resend {
				s.Resend++
			}
		}
		s.Dead, s.LetterBytes = uint64(len(left)), int64(len(text))
		return replace(p.letters(name, s.Letters), text)
	})
}

// replace replaces the content of a file.
func replace(name string, text []byte) error {
	return durable.Replace(vfs.Default, name, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
