package crawl

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/internal/lineage"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// seed checks and adds seeds. It looks up the names of hosts only if q.Check is true,
// because a file can have millions of seeds.
func (ses *session) seed(ctx context.Context, q seedQuestion) ([]SeedAnswer, error) {
	replies := make([]SeedAnswer, len(q.Seeds))
	var good []string
	var at []int
	for i, raw := range q.Seeds {
		if reason, err := ses.plan.checkSeed(ctx, raw, q.Check); err != nil {
			replies[i] = SeedAnswer{Answer: frontier.Refused.String(), Reason: reason, Message: err.Error()}
			continue
		}
		good, at = append(good, raw), append(at, i)
	}
	answers, err := ses.worker.Seeds(ctx, good)
	if err != nil {
		return nil, err
	}
	for j, a := range answers {
		replies[at[j]] = newSeedAnswer(a)
	}
	ses.noteRefused(q.Seeds, replies)
	return replies, nil
}

func newSeedAnswer(a fetcher.SeedAnswer) SeedAnswer {
	r := SeedAnswer{URL: a.URL, Answer: a.Verdict.Answer.String(), Reason: a.Verdict.Reason}
	switch {
	case a.Err != nil:
		r.Message = a.Err.Error()
	case a.Verdict.Answer == frontier.Refused:
		r.Message = fmt.Sprintf("%s: %s", a.URL, a.Verdict.Reason)
	}
	return r
}

// lookUpTime is the longest time for looking up a host's name.
const lookUpTime = 5 * time.Second

// checkSeed returns an error if a seed is not a URL, or if all addresses of its host
// are forbidden. It looks up the names of hosts only if lookUp is true.
func (p *Plan) checkSeed(ctx context.Context, raw string, lookUp bool) (frontier.Reason, error) {
	url, err := seed.Parse(p.canon, raw)
	if err != nil {
		fault := errors.New(seed.Fault(raw, err, seed.WantSeed))
		switch {
		case errors.Is(err, canon.ErrScheme):
			return frontier.ReasonScheme, fault
		case errors.Is(err, canon.ErrTooLong):
			return frontier.ReasonTooLong, fault
		}
		return frontier.ReasonMalformed, fault
	}
	if err := p.checkPort(url.Port()); err != nil {
		return frontier.ReasonPort, fmt.Errorf("%s: %w", url, err)
	}
	host := url.Host()
	_, notAddress := netip.ParseAddr(strings.Trim(host, "[]"))
	plain := notAddress == nil || host == "localhost" || strings.HasSuffix(host, ".localhost")
	if !plain && !lookUp {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	var refused *get.AddressError
	if err := p.client.CheckHost(ctx, host); errors.As(err, &refused) {
		return frontier.Reason(frontier.Address), refused
	}
	return "", nil // a look-up that fails now can succeed later
}

// seedsFile is the name of the file with the result of each seed. A refused seed is
// appended when it is refused, because no other file contains it. The results of the
// other seeds are taken from the records when the file is written again.
const seedsFile = "seeds.jsonl"

// seedsAtEnd limits the work at the end of a run. The run does not write seedsFile if the
// number of records and waiting URLs is larger. Reading this many takes some seconds.
const seedsAtEnd = 500_000

// seedsAfter writes seedsFile at the end of a run, unless that would take too long.
func (ses *session) seedsAfter(ctx context.Context, stats frontier.Stats) {
	if ses.plan.Redis != nil || ses.dir == "" { // in Redis, other workers can still run, and they have their own records
		return
	}
	old := func() {
		ses.plan.Logger.Info("seeds.jsonl was not updated: 'crawler report --seeds' updates it", slog.Uint64("records", stats.Records))
	}
	if stats.Records+stats.Queued > seedsAtEnd {
		old()
		return
	}
	switch _, err := ses.writeSeeds(ctx); {
	case err != nil && ctx.Err() != nil:
		old()
	case err != nil:
		ses.plan.Logger.Warn("seeds.jsonl not written", slog.Any("err", err))
	}
}

// writeSeeds writes seedsFile again and returns the number of seeds in it.
func (ses *session) writeSeeds(ctx context.Context) (n uint64, err error) {
	ses.seedsMu.Lock() // no refused seed is added meanwhile
	defer ses.seedsMu.Unlock()
	records, err := ses.engine.CommittedRecords(ctx)
	if err != nil {
		return 0, err
	}
	crawl := lineage.Crawl{
		Lines:   func() iter.Seq2[[]byte, error] { return engine.WithContext(ctx, records.Lines()) },
		Waiting: engine.WithContext(ctx, engine.Unfinished(ctx, ses.engine)),
	}
	name := seedsPath(ses.plan.place)
	err = engine.ReplaceFile(name, func(w io.Writer) (err error) {
		out := bufio.NewWriterSize(w, 64<<10)
		if n, err = copyRefused(out, name); err != nil {
			return err
		}
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		err = lineage.Each(crawl, func(s lineage.Seed) error { n++; return enc.Encode(s) })
		return errors.Join(err, out.Flush())
	})
	return n, err
}

// copyRefused copies the lines about refused seeds from a file to w, and leaves out repeated
// lines. It keeps a hash of 8 bytes in memory for each line.
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
	lines.Buffer(nil, 256<<10)
	for lines.Scan() {
		var s lineage.Seed
		if json.Unmarshal(lines.Bytes(), &s) != nil || s.Why != lineage.Refused {
			continue // the result of another seed, or a line that a crash cut off
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

// noteRefused appends the refused seeds to seedsFile, and calls Config.OnRefused for
// each of them.
func (ses *session) noteRefused(seeds []string, replies []SeedAnswer) {
	var text []byte
	for i, r := range replies {
		if r.Answer != frontier.Refused.String() {
			continue
		}
		raw := cmp.Or(r.URL, seed.Shown(seeds[i])) // the seed itself can contain a password
		if ses.plan.OnRefused != nil {
			ses.plan.OnRefused(fetcher.Refused{URL: raw, Reason: r.Reason, Rule: r.Message})
		}
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
		ses.plan.Logger.Warn("refused seeds not noted", slog.Any("err", err))
	}
}

// seedsPath returns the path of seedsFile. If the crawl is in Redis and does not run
// here, the file is in the directory that contains the workers' directories.
func seedsPath(place engine.Place) string { return filepath.Join(place.Home(), seedsFile) }
