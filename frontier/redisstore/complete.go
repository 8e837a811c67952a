package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// Complete implements frontier.Store. It offers the links first, then it writes and syncs
// the records, and then the completions take effect in one step. So links that were added
// stay added if that step fails. The step takes effect only if no node that answered a
// link has restarted since. Otherwise the links are offered again.
//
// If links belong to partitions on other nodes of a cluster, Complete waits until Config.Wait
// replicas have them. If Config.Wait is 0, it waits for two seconds, after which the links
// are on disk.
//
// With an exact set, Complete asks it about the exact links before it offers them, and the ends of exact items are stored
// in it after their records. While the set is away, Complete returns frontier.ErrUnavailable if an item is exact or has
// exact links. The caller keeps the completions, and repeats the call.
//
// If an answer was lost and the caller repeats the call, nothing is done twice: links are
// not offered again, and records are not written again. If the offer of the links failed, they are offered again with
// the same decisions, except that a new key that is not pending any more now counts as known.
func (s *Store) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	if len(update.Blob) > frontier.MaxBlob {
		return fmt.Errorf("redisstore: host blob has %d bytes, want at most %d", len(update.Blob), frontier.MaxBlob)
	}
	for i := range done {
		if err := s.checkCompletion(&done[i]); err != nil {
			return err
		}
	}
	h := s.held.get(id)
	if h == nil {
		return frontier.ErrLeaseLost
	}
	c := &completing{Store: s, h: h, update: update}
	if err := c.begin(done); err != nil {
		return err
	}
	defer c.end()
	defer s.countPages(done)
	switch {
	case h.state().ended && len(c.todo) == 0:
		return nil // a repeat: the first call completed all of them
	case !h.current(s.now()):
		return c.refused()
	}
	return c.run(ctx)
}

func (s *Store) checkCompletion(c *frontier.Completion) error {
	switch {
	case c.Disposition > frontier.Hold:
		return fmt.Errorf("redisstore: completion of %x has disposition %d", c.Item[:4], c.Disposition)
	case c.Disposition == frontier.Finish && c.Outcome.State() == frontier.Unknown:
		return fmt.Errorf("redisstore: completion of %x has outcome %q", c.Item[:4], c.Outcome)
	case s.cfg.Exact != nil && (s.cfg.Exact.End == nil || s.output == nil):
		return errors.New("redisstore: Config has no Exact.End or no OpenOutput, so the exact set would not learn how an item ended")
	case c.Record != nil && s.output == nil:
		return fmt.Errorf("redisstore: completion of %x has a record, but the store has no output", c.Item[:4])
	}
	return nil
}

// completing is one call of Complete.
type completing struct {
	*Store
	h      *heldLease
	update frontier.HostUpdate
	todo   []todo // for items that the lease has not completed yet, in the order of their numbers
}

// todo is one completion.
type todo struct {
	*frontier.Completion
	item *heldItem // this call has locked item.turn
}

// followed is the progress of a completion before the completion takes effect.
type followed struct {
	decided  exact.Decisions // of the exact set about the links
	links    answers
	answered time.Time // when all links were answered; zero means that they were not
	recorded bool      // its record was written
	told     bool      // the exact set may have stored its end
}

// begin finds the items of completions, and locks the mutex of each item (the field turn). So the
// second of two calls for one item sees the effects of the first. begin skips items that were
// completed before. If several completions have the same item, it uses only the first of them.
func (c *completing) begin(done []frontier.Completion) error {
	found := make(map[*heldItem]bool, len(done))
	for i := range done {
		it := c.h.find(done[i].Item)
		if it == nil {
			return fmt.Errorf("redisstore: completion of %x, which the lease of %q does not hold: %w",
				done[i].Item[:4], c.h.host, frontier.ErrLeaseLost)
		}
		if !found[it] {
			found[it] = true
			c.todo = append(c.todo, todo{&done[i], it})
		}
	}
	slices.SortFunc(c.todo, func(a, b todo) int { return cmp.Compare(a.item.number, b.item.number) })
	for _, t := range c.todo {
		t.item.turn.Lock()
	}
	c.todo = slices.DeleteFunc(c.todo, func(t todo) bool {
		settled := t.item.settled
		if settled {
			t.item.turn.Unlock()
		}
		return settled
	})
	return nil
}

func (c *completing) end() {
	for _, t := range c.todo {
		t.item.turn.Unlock()
	}
}

// maxEpochs is how many times one call offers links again because nodes restarted.
const maxEpochs = 4

func (c *completing) run(ctx context.Context) error {
	if err := c.show(ctx); err != nil {
		return err
	}
	if err := c.decide(ctx); err != nil {
		return err
	}
	if err := c.follow(ctx); err != nil {
		return err
	}
	crash.Point("offered")
	for range maxEpochs {
		required, err := c.awaitLinks(ctx)
		if err == nil {
			if err = c.record(); err != nil {
				return err
			}
			crash.Point("recorded")
			err = c.commit(ctx, required)
		}
		if !errors.Is(err, errEpoch) {
			return err
		}
		if err := c.followAgain(ctx); err != nil {
			return err
		}
	}
	return errEpoch
}

// show asks which items were the first with the contents of the completions, and leaves out links that need not be followed. A
// repeated call has the same answers.
func (c *completing) show(ctx context.Context) error {
	var showed []frontier.ShowedBy
	for _, t := range c.todo {
		for _, content := range []frontier.Content{t.Showed.Content, t.Showed.WithLinks} {
			if content != (frontier.Content{}) && t.Disposition == frontier.Finish {
				showed = append(showed, frontier.ShowedBy{Content: content, Item: t.Item})
			}
		}
	}
	if len(showed) == 0 || c.cfg.Contents == nil {
		return nil
	}
	first, err := c.cfg.Contents.First(ctx, showed)
	if err != nil {
		return err
	}
	known := make(map[frontier.Content]frontier.Referrer, len(showed))
	for i := range showed {
		known[showed[i].Content] = first[i]
	}
	for i := range c.todo {
		t := &c.todo[i]
		t.Completion, _ = t.ShowedFirst(func(content frontier.Content) (frontier.Referrer, error) { return known[content], nil })
	}
	return nil
}

// isExact reports whether the exact set stores the item of a completion: it is exact, or perhaps a later visit of a page.
// Of such a page, the set stores the round that was reached.
func (c *completing) isExact(t todo) bool {
	return c.cfg.Exact != nil && (t.item.item.Class != frontier.Bulk || t.item.item.Round > 0)
}

// decide asks the exact set about the links that were not offered yet, unless it has decided about them before. It returns
// frontier.ErrUnavailable if the set is away and must be asked, or must be told the end of an item: otherwise the
// records of other items would wait, too.
func (c *completing) decide(ctx context.Context) (err error) {
	client := c.cfg.Exact
	if client == nil {
		return nil
	}
	var open []todo
	var links []frontier.Offer
	needed := false
	for _, t := range c.todo {
		needed = needed || c.isExact(t) && t.Disposition == frontier.Finish
		if !t.fresh() || !exact.HasExact(t.Links) {
			continue
		}
		needed = true
		if p := t.item.pending; p == nil || len(p.decided.Each) != len(t.Links) {
			open, links = append(open, t), append(links, t.Links...)
		}
	}
	if !needed {
		return nil
	}
	if err := client.Ready(ctx); err != nil {
		return err
	}
	for _, t := range c.todo {
		if p := t.item.pending; p != nil && t.fresh() {
			if p.decided, err = client.Recheck(ctx, p.decided); err != nil {
				return err
			}
		}
	}
	decided, err := client.Decide(ctx, c.hasher, links)
	if err != nil {
		return err
	}
	for _, t := range open {
		n := len(t.Links)
		t.item.pending = &followed{decided: exact.Decisions{Each: decided.Each[:n:n], At: decided.At}}
		decided.Each = decided.Each[n:]
	}
	return nil
}

// follow offers the links of the completions, except links that were offered before.
func (c *completing) follow(ctx context.Context) error {
	var links []frontier.Offer
	var decided []exact.Decision
	for _, t := range c.todo {
		if !t.fresh() {
			continue
		}
		if p := t.item.pending; p != nil {
			p.decided = c.cfg.Exact.Fresh(p.decided)
			decided = slices.Concat(decided, make([]exact.Decision, len(links)-len(decided)), p.decided.Each)
		}
		links = append(links, t.Links...)
	}
	if decided != nil {
		decided = append(decided, make([]exact.Decision, len(links)-len(decided))...)
	}
	got, err := c.offer(ctx, links, decided, true)
	if err != nil {
		return err
	}
	answered := time.Now()
	for _, t := range c.todo {
		if t.fresh() {
			n := len(t.Links)
			mine := answers{verdicts: got.verdicts[:n:n], parts: got.parts[:n:n], epochs: got.epochs, known: got.known}
			got.verdicts, got.parts = got.verdicts[n:], got.parts[n:]
			if t.item.pending == nil {
				t.item.pending = new(followed)
			}
			t.item.pending.links, t.item.pending.answered = mine, answered
		}
		t.tellAnswers()
	}
	return nil
}

// reliesOn returns the generation of the lease's partition that the answers to links rely on, or "" if there are no links.
func (c *completing) reliesOn() string {
	for _, t := range c.todo {
		if known := t.item.pending.links.known; known != nil {
			return known.generations[c.h.part.number]
		}
	}
	return ""
}

// fresh reports whether the links of a completion were not offered yet. A repeated call
// must have the same links. If their number differs, they are offered again.
func (t *todo) fresh() bool {
	p := t.item.pending
	return p == nil || p.answered.IsZero() || len(p.links.verdicts) != len(t.Links)
}

// settle stores the answers to exact links in the exact set.
func (c *completing) settle(ctx context.Context) {
	if c.cfg.Exact == nil {
		return
	}
	answers := exact.Answers{}
	for _, t := range c.todo {
		c.cfg.Exact.Collect(answers, t.item.pending.decided, t.item.pending.links.verdicts)
	}
	c.cfg.Exact.Settle(ctx, answers)
}

func (t *todo) tellAnswers() {
	if t.LinkAnswered == nil {
		return
	}
	for i, v := range t.item.pending.links.verdicts {
		if v.Answer != frontier.Seen {
			t.LinkAnswered(i, v)
		}
	}
}

// followAgain offers all links again, including the seen ones, because restarted nodes may
// have lost them. It does not change the counts of the links, because a record may already
// contain them.
func (c *completing) followAgain(ctx context.Context) error {
	for _, t := range c.todo {
		p := t.item.pending
		if p.decided.Each != nil {
			decided, err := c.cfg.Exact.Recheck(ctx, p.decided)
			if err != nil {
				return err
			}
			p.decided = c.cfg.Exact.Fresh(decided)
		}
		got, err := c.offerAgain(ctx, t.Links, p.decided.Each, p.links, true)
		if err != nil {
			return err
		}
		p.links, p.answered = got, time.Now()
	}
	return nil
}

// record writes the records that were not written yet, and syncs the output. The Sync also stores the ends of
// exact items in the exact set.
func (c *completing) record() error {
	job := &recordJob{}
	for _, t := range c.todo {
		if t.Disposition != frontier.Finish {
			continue
		}
		if c.isExact(t) {
			job.sync, t.item.pending.told = true, true
			job.ends = append(job.ends, exact.Finished{
				Ref: exact.Ref{Fingerprint: t.Item, Round: t.item.item.Round}, Class: t.item.item.Class, Outcome: t.Outcome, Status: t.Status,
			})
		}
		if t.Record == nil {
			continue
		}
		job.sync = true
		if t.item.pending.recorded {
			continue
		}
		job.bytes += t.Bytes
		job.write = append(job.write, func() error {
			if err := t.Record(t.linkCounts()); err != nil {
				return fmt.Errorf("redisstore: write the record of %q: %w", t.item.item.URL, err)
			}
			t.item.pending.recorded = true
			return nil
		})
	}
	if !job.sync {
		return nil
	}
	return c.writeRecord(job)
}

// refused returns ErrLeaseLost. If the completions certainly took no effect, it voids the
// records that were written for them, but no record of an item whose end the exact set may have: perhaps no
// worker gets the item again. If a worker does get it again, a second record of the round does no harm.
func (c *completing) refused() error {
	job := &recordJob{}
	for _, t := range c.todo {
		if t.Void != nil && t.item.pending != nil && t.item.pending.recorded && !t.item.pending.told {
			job.write = append(job.write, t.Void)
		}
	}
	if len(job.write) == 0 || c.h.state().doubtful {
		return frontier.ErrLeaseLost
	}
	return errors.Join(frontier.ErrLeaseLost, c.writeRecord(job))
}

func (t *todo) linkCounts() (n frontier.LinkCounts) {
	for _, v := range t.item.pending.links.verdicts {
		n.Count(v.Answer, 1)
	}
	for _, r := range t.Refused {
		n.Count(frontier.Refused, r.Count)
	}
	return n
}

// commit makes the completions take effect if the node is in the epoch required. If required is
// nil, the node can be in any epoch.
func (c *completing) commit(ctx context.Context, required *epoch) error {
	made := c.runTogether(ctx, &call{
		part: c.h.part, script: completeScript, keys: c.keys(), args: c.args(), required: required, lease: c.h,
	})
	crash.Point("completed")
	if errors.Is(made.err, errEpoch) && made.ran == nil {
		return made.err
	}
	if made.err != nil {
		c.h.noteDoubt()
		return made.err
	}
	switch verdict := integer(made.reply); {
	case verdict == 1, verdict == 2 && (c.update.End || c.h.state().doubtful):
		// Verdict 2 means that an earlier call ended the lease, but its answer was lost. If
		// that call did not have these completions, their items were given back and are
		// fetched again.
		c.settle(ctx)
		c.h.settle(c.todo, c.update)
		if c.update.End {
			c.schedule.wake(c.h.part)
		}
		return nil
	case verdict == 4:
		c.forgetKnown(c.known.Load())
		return errEpoch
	case verdict == 3: // the server has lost the partition; the records are not voided
		return c.errGone(c.h.part)
	}
	return c.refused()
}

func (c *completing) keys() []string {
	p := c.h.part
	keys := append(p.hostKeys(c.h.host), p.failed(c.h.host), p.failedHosts, p.counts(c.hasher.Fingerprint(c.h.host)), p.places(c.siteOf(c.h.host)))
	if c.cfg.Exact != nil {
		keys = append(keys, p.exact)
	}
	return keys
}

// Indices of the arguments of complete.lua in call.args. Index 0 is ARGV[2].
const (
	argEnd       = 4
	argBlobGiven = 5
	argBlob      = 6
	argKnown     = 8 // the generation
	argItems     = 9 // the first completion
)

// maxJoinedArgs bounds joined calls. A call that already has this many arguments gets no
// further completions. About fifty completions have this many arguments.
const maxJoinedArgs = 1024

// joinCompletions appends the completions of second to those of first. Both are calls of
// complete.lua for one lease. It returns false if the calls cannot be joined.
func joinCompletions(first, second *call) bool {
	ended := first.args[argEnd] == any("1")
	known, other := first.args[argKnown], second.args[argKnown]
	if ended || known != any("") && other != any("") && known != other || len(first.args) >= maxJoinedArgs || first.required != nil && second.required != nil && first.required != second.required {
		return false
	}
	given, blob := first.args[argBlobGiven], first.args[argBlob]
	copy(first.args, second.args[:argItems])
	if other == any("") {
		first.args[argKnown] = known
	}
	if second.args[argBlobGiven] != any("1") {
		first.args[argBlobGiven], first.args[argBlob] = given, blob
	}
	first.args = append(first.args, second.args[argItems:]...)
	first.required = cmp.Or(first.required, second.required)
	return true
}

// args returns the arguments of complete.lua, from ARGV[2].
func (c *completing) args() []any {
	args := []any{
		c.h.host, c.h.id[:], millis(c.update.Due), millis(c.update.Delay),
		oneIf(c.update.End), oneIf(c.update.Blob != nil), c.update.Blob,
		c.hostsCounted(), c.reliesOn(),
	}
	if c.update.Keep {
		args[2] = ""
	}
	policy := c.cfg.Policy()
	for _, t := range c.todo {
		what, argument, leaves := "back", any(""), any("")
		switch it := &t.item.item; {
		case t.Disposition == frontier.Hold && (policy.Paused(it.Host, it.URL) || t.isFirst() && c.full(policy)):
			what = "hold"
		case t.Disposition == frontier.Last, t.Disposition == frontier.Hold:
			what = "last"
		case t.Disposition == frontier.Retry:
			what, argument = "retry", millis(t.RetryIn)
		case t.Disposition == frontier.Finish && t.Outcome.State() == frontier.Failed && !t.Known:
			what, argument = "failed", appendFailed(nil, t.Outcome, t.Status)
		case t.Disposition == frontier.Finish:
			what = "done"
		}
		if t.Disposition == frontier.Finish {
			leaves = c.exactPrint(&t.item.item)
		}
		sum := t.counts()
		if t.Disposition == frontier.Finish && t.Page && !t.isFirst() && policy.Recrawl.On() {
			sum.add(fieldPagesAgain, 1)
		}
		args = sum.appendTo(append(args, t.item.number, what, argument, leaves, len(sum)))
	}
	return args
}

// counts returns the amounts that a completion adds to counters.
func (t *todo) counts() counts {
	sum := make(counts)
	sum.verdicts(t.item.pending.links.verdicts)
	for _, r := range t.Refused {
		sum.refused(r.Reason, r.Count)
	}
	if t.Cause != "" {
		sum.add(fieldCause+t.Cause, 1)
	}
	if t.BodyBytes > 0 {
		sum.add(fieldBytes, uint64(t.BodyBytes))
	}
	if t.Disposition != frontier.Finish {
		return sum
	}
	sum.add(fieldOutcome+string(t.Outcome), 1)
	if t.item.item.Round > 0 {
		sum.add(fieldRepeats, 1)
	}
	if t.Known && t.Outcome.State() == frontier.Failed {
		sum.add(fieldFailedAgain, 1)
	}
	if t.Page {
		sum.add(fieldPages, 1)
	}
	if t.Record != nil {
		sum.add(fieldRecords, 1)
	}
	return sum
}

func (t *todo) isFirst() bool { return t.item.item.Round == 0 }

func oneIf(on bool) string {
	if on {
		return "1"
	}
	return ""
}
