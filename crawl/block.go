package crawl

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// Block says which URLs are blocked, or no longer blocked.
type Block struct {
	URLs []string `json:"urls,omitempty"`
	Rule string   `json:"rule,omitempty"` // hosts and a regular expression, as policy.ParseTarget takes them; empty means none
	// Erase keeps the fingerprints of URLs in the policy instead of the URLs, and erases records: see record.Erase.
	Erase bool   `json:"erase,omitempty"`
	Undo  bool   `json:"undo,omitempty"` // the URLs are no longer blocked; what was erased stays so
	Who   string `json:"who"`            // who makes the change, as in user@host
	Why   string `json:"why,omitempty"`  // for the history
	Dry   bool   `json:"dry,omitempty"`  // change nothing, only say what the call would do
}

// Blocked is the result of Handle.Block.
type Blocked struct {
	Version uint64   `json:"version"`         // of the policy
	Same    bool     `json:"same,omitempty"`  // the policy had these rules already, or with Undo had none of them
	Rules   []string `json:"rules,omitempty"` // those that select the URLs now, or with Undo those that were removed
	Waiting uint64   `json:"waiting"`         // waiting URLs that were dropped, or would be
	Hidden  uint64   `json:"hidden"`          // records that the rules select
	Letters uint64   `json:"letters"`         // dead letters of relays that were removed, or would be
	Erased  record.Erased
	// Left says, in words, what of the blocked URLs the call could not reach.
	Left []string `json:"left,omitempty"`
}

// blockRules is the answer of the process that makes the rules.
type blockRules struct {
	Blocked
	Targets []string `json:"targets"` // of Handle.Drop
	Links   bool     `json:"links"`   // these and the following are settings of the crawl
	Archive bool     `json:"archive"`
	Rows    bool     `json:"rows"`
	CDC     bool     `json:"cdc"`
}

// Block blocks URLs: they are never requested again, links to them are refused, those that wait are dropped, and their
// records are hidden from all that reads the records or the events of the crawl. Their dead letters are removed. Relays
// send an event of the type events.PageWithdrawn for each hidden record. The rules are in a new version of the policy. A call that was interrupted
// can be repeated, and goes on. With an error, the result says what was done until then.
func (h *Handle) Block(ctx context.Context, b Block) (r Blocked, err error) {
	made, err := ask(ctx, h, verbBlock, b)
	if r = made.Blocked; err != nil || b.Undo {
		return r, err
	}
	if !b.Dry {
		for _, target := range made.Targets {
			dropped, err := h.Drop(ctx, target)
			if r.Waiting += dropped.URLs; err != nil {
				return r, err
			}
		}
	}
	blocks := engine.BlocksOf(made.Rules)
	records, closeRecords, err := h.records(ctx)
	if err == nil {
		for line, lineErr := range engine.WithContext(ctx, records.Lines()) {
			if err = lineErr; err != nil {
				break
			}
			if engine.Blocked(&blocks, line) != nil {
				r.Hidden++
			}
		}
		err = errors.Join(err, closeRecords())
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if err != nil {
		r.Left = append(r.Left, fmt.Sprintf("the records could not be counted here: %v", err))
	}
	if r.Letters, err = h.discardLetters(ctx, b.Dry, &blocks); ctx.Err() != nil {
		return r, ctx.Err()
	}
	if err != nil {
		r.Left = append(r.Left, fmt.Sprintf("dead letters of relays are hidden, but stay: %v", err))
	}
	if b.Erase && !made.Rows {
		if r.Erased, err = h.erase(ctx, b.Dry, &blocks); err != nil {
			return r, err
		}
	}
	r.Left = append(r.Left, made.left(&r, &b, h.location.Redis != nil)...)
	return r, nil
}

// discardLetters removes the dead letters of blocked URLs.
func (h *Handle) discardLetters(ctx context.Context, dry bool, blocks *policy.Blocks) (sum uint64, err error) {
	boxes, err := h.Outboxes(ctx)
	if err != nil {
		return 0, err
	}
	list, err := boxes.List(ctx)
	for i := 0; i < len(list) && err == nil; i++ {
		var n uint64
		n, err = list[i].DiscardBlocked(ctx, blocks, dry)
		sum += n
	}
	return sum, errors.Join(err, boxes.Close())
}

// erase erases records in the directories of the crawl on this machine.
func (h *Handle) erase(ctx context.Context, dry bool, blocks *policy.Blocks) (sum record.Erased, err error) {
	dirs := []string{h.location.Dir}
	if h.location.Redis != nil {
		if dirs, err = engine.WorkersOf([]string{h.place.Home()}); errors.Is(err, fs.ErrNotExist) {
			return sum, nil
		} else if err != nil {
			return sum, err
		}
	}
	for _, dir := range dirs {
		one, err := record.Erase(ctx, dir, dry, func(line []byte) uint64 {
			if rule := engine.Blocked(blocks, line); rule != nil {
				return rule.Since
			}
			return 0
		})
		sum.Closed, sum.Active = sum.Closed+one.Closed, sum.Active+one.Active
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// left returns what a Block cannot reach.
func (m *blockRules) left(r *Blocked, b *Block, shared bool) (left []string) {
	say := func(is bool, text string) {
		if is {
			left = append(left, text)
		}
	}
	say(m.Rows, "rows of records in Postgres: they are hidden, but stay")
	say(m.CDC, "events for change data capture: they bypass relays")
	say(!m.Rows && !b.Erase && r.Hidden > 0, "lines of record files: they are hidden, but stay (--erase)")
	say(b.Erase && r.Erased.Active > 0, fmt.Sprintf("%d lines of the newest record file, which is not closed: repeat this later", r.Erased.Active))
	say(m.Archive, "answers in WARC files: 'crawler export --without-blocked --warc DIR' copies the files without them")
	say(m.Links, "files of kept links: links of blocked pages are hidden, but stay, and so do links to them")
	say(shared && !m.Rows, "directories of workers on other machines")
	say(true, "what was copied before: exports, backups, and events that receivers keep; running relays send page.withdrawn, others at their next run")
	return left
}

// blocks returns the present rules of crawler block.
func (h *Handle) blocks(ctx context.Context) (policy.Blocks, error) {
	if h.own != nil {
		h.own.adopting.Lock()
		defer h.own.adopting.Unlock()
		return h.own.plan.version.Blocks()
	}
	stored, err := h.place.Stored(ctx)
	if err != nil || stored == nil {
		return policy.Blocks{}, err
	}
	return stored.Version.Blocks()
}

// block implements Handle.Block, without dropping and erasing.
func (ses *session) block(ctx context.Context, b Block) (r blockRules, err error) {
	newest, err := ses.engine.LastVersion(ctx)
	if err != nil {
		return r, err
	}
	now, err := ses.plan.settingsAt(newest)
	if err != nil {
		return r, err
	}
	add, remove, err := ses.blockRules(&b, &r)
	if err != nil {
		return r, err
	}
	c := Change{From: new(numberOf(newest)), Who: b.Who, Why: b.Why, Dry: b.Dry}
	for _, text := range now.Block {
		rule, err := policy.ParseBlock(text)
		switch {
		case err != nil:
		case slices.Contains(remove, rule.Rule()):
			c.Values = append(c.Values, "block-="+text)
			if b.Undo {
				r.Rules = append(r.Rules, text)
			} else if _, url, _ := strings.Cut(rule.Rule(), "url="); url != "" {
				r.Left = append(r.Left, "the history of the policy: an earlier version names the URL "+url)
			}
		case slices.Contains(add, rule.Rule()):
			add = slices.DeleteFunc(add, func(text string) bool { return text == rule.Rule() })
			r.Rules = append(r.Rules, text)
		}
	}
	for _, rule := range add {
		text := fmt.Sprintf("since=%d %s", *c.From+1, rule)
		c.Values, r.Rules = append(c.Values, "block+="+text), append(r.Rules, text)
	}
	r.Version, r.Same = *c.From, c.Values == nil
	r.Links, r.Archive = ses.plan.Settings.Links, ses.plan.Settings.Save != "none"
	r.Rows, r.CDC = ses.plan.Settings.Sink == sinkPostgres, ses.plan.Settings.CDC
	if r.Same {
		return r, nil
	}
	changed, err := ses.change(ctx, c)
	if err == nil && !b.Dry {
		r.Version = numberOf(changed.Version)
	}
	if changed.Reach != nil {
		r.Waiting = changed.Reach.URLs
	}
	return r, err
}

// blockRules returns the texts of rules that a Block adds and removes, without the version.
func (ses *session) blockRules(b *Block, r *blockRules) (add, remove []string, err error) {
	for _, raw := range b.URLs {
		url, err := ses.plan.canon.Parse(raw)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %q: %w", ErrRefused, raw, err)
		}
		plain := "url=" + url.String()
		var items []string
		for _, text := range []string{url.String(), frontier.CheckURL(url.String())} {
			print := ses.engine.Hasher().Fingerprint(text)
			items = append(items, "item="+hex.EncodeToString(print[:]))
		}
		switch {
		case b.Undo:
			remove = append(append(remove, plain), items...)
		case b.Erase:
			add, remove = append(add, items...), append(remove, plain)
		default:
			add = append(add, plain)
		}
		r.Targets = append(r.Targets, "host="+ses.plan.canon.HostKey(url), "host="+canon.Domain(url.Host()))
	}
	if b.Rule != "" {
		if _, err := policy.ParseBlock("since=1 " + b.Rule); err != nil {
			return nil, nil, fmt.Errorf("%w: %q: %w", ErrRefused, b.Rule, err)
		}
		if b.Undo {
			remove = append(remove, b.Rule)
		} else {
			add, r.Targets = append(add, b.Rule), append(r.Targets, b.Rule)
		}
	}
	slices.Sort(r.Targets)
	r.Targets = slices.Compact(r.Targets)
	return add, remove, nil
}
