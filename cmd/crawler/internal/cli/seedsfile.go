package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/bloomfrontier/crawler/crawl/lineage"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
)

// seedsFile says what came of each seed. Refused seeds are added when they are
// refused, for nothing else remembers them; the others are found when the file
// is written anew.
const seedsFile = "seeds.jsonl"

// seedsAtEnd is how many records and waiting URLs are read at the end of a run,
// some seconds of work, for the sake of seedsFile.
const seedsAtEnd = 500_000

// reportSeeds has seedsFile written anew, by who runs the crawl.
func reportSeeds(ctx context.Context, at place, s streams) error {
	var n uint64
	err := lookAtCrawl(ctx, at, s,
		func() error { return callControl(ctx, at.dir, "POST", "/seeds", nil, &n) },
		func(ses *session) (err error) {
			n, err = ses.writeSeeds(ctx)
			return err
		})
	if err == nil {
		fmt.Fprintf(s.out, "%s in %s\n", human.Plural(n, "seed"), at.seedsName())
	}
	return err
}

func (ses *session) handleSeeds(w http.ResponseWriter, r *http.Request) {
	n, err := ses.writeSeeds(r.Context())
	reply(w, n, err)
}

// seedsAfter writes seedsFile at the end of a run, unless that takes long.
func (ses *session) seedsAfter(ctx context.Context, stats frontier.Stats) {
	if ses.redis != "" { // others may be at it still, and have records elsewhere
		return
	}
	old := func() {
		ses.log.Info("seeds.jsonl is as old as before: 'crawler report --seeds' writes it anew", slog.Uint64("records", stats.Records))
	}
	if stats.Records+stats.Queued > seedsAtEnd {
		old()
		return
	}
	switch _, err := ses.writeSeeds(ctx); {
	case err != nil && ctx.Err() != nil:
		old()
	case err != nil:
		ses.log.Warn("seeds.jsonl not written", slog.Any("err", err))
	}
}

// writeSeeds writes seedsFile anew and returns how many seeds it has.
func (ses *session) writeSeeds(ctx context.Context) (n uint64, err error) {
	ses.seedsMu.Lock() // no refused seed is added meanwhile
	defer ses.seedsMu.Unlock()
	records, err := ses.store.records(ctx)
	if err != nil {
		return 0, err
	}
	name := ses.seedsName()
	temp, err := os.Create(name + ".tmp")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err = errors.Join(err, temp.Close()); err == nil {
			err = os.Rename(temp.Name(), name)
		}
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	out := bufio.NewWriterSize(temp, 64<<10)
	if n, err = copyRefused(out, name); err != nil {
		return 0, err
	}
	crawl := lineage.Crawl{
		Lines: func() iter.Seq2[[]byte, error] { return withContext(ctx, records.Lines()) },
		Waiting: func(visit func(frontier.Item) bool) error {
			unless := func(item frontier.Item) bool { return ctx.Err() == nil && visit(item) }
			err := errors.Join(ses.store.List(ctx, frontier.Leased, "", unless), ses.store.List(ctx, frontier.Queued, "", unless))
			return errors.Join(err, ctx.Err())
		},
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	err = lineage.Each(crawl, func(s lineage.Seed) error { n++; return enc.Encode(s) })
	if err == nil {
		err = errors.Join(out.Flush(), temp.Sync())
	}
	return n, err
}

// withContext ends an iteration when ctx does.
func withContext[T any](ctx context.Context, values iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range values {
			if !yield(v, errors.Join(err, ctx.Err())) {
				return
			}
		}
	}
}

// seedsName returns the path of seedsFile; of a crawl that is not worked on here
// it is beside its workers' directories.
func (at place) seedsName() string {
	if shared, ok := at.home.(*sharedHome); ok && at.dir == "" {
		return filepath.Join(shared.shelf(), seedsFile)
	}
	return at.file(seedsFile)
}

// copyRefused copies the refused seeds of an old file, each line once, of which
// it remembers 8 bytes.
func copyRefused(w *bufio.Writer, name string) (n uint64, err error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	known, hash := make(map[uint64]struct{}), maphash.MakeSeed()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4*maxSeedLine)
	for lines.Scan() {
		var s lineage.Seed
		if json.Unmarshal(lines.Bytes(), &s) != nil || s.Why != lineage.Refused {
			continue // the rest of a line that a crash cut off is no loss
		}
		sum := maphash.Bytes(hash, lines.Bytes())
		if _, twice := known[sum]; twice {
			continue
		}
		known[sum] = struct{}{}
		n++
		if _, err := w.Write(append(bytes.Clone(lines.Bytes()), '\n')); err != nil {
			return n, err
		}
	}
	return n, lines.Err()
}

// noteRefused adds the refused ones of seeds to seedsFile and --refused.
func (ses *session) noteRefused(seeds []string, replies []seedReply) {
	var text []byte
	for i, r := range replies {
		if r.Answer != frontier.Refused.String() {
			continue
		}
		raw := cmp.Or(r.URL, seed.Shown(seeds[i])) // which may have a password
		ses.refusals.write(refusal{URL: raw, Reason: r.Reason, Rule: r.Message})
		line, err := json.Marshal(lineage.Seed{URL: raw, Why: lineage.Refused, Error: r.Message})
		if err == nil {
			text = append(append(text, line...), '\n')
		}
	}
	if len(text) == 0 || ses.dir == "" {
		return
	}
	ses.seedsMu.Lock()
	defer ses.seedsMu.Unlock()
	f, err := os.OpenFile(ses.file(seedsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		ses.log.Warn("refused seeds not noted", slog.Any("err", err))
	}
}
