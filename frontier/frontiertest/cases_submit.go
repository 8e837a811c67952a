package frontiertest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

var submitCases = []testCase{
	{"SubmitRepeatsTheAnswers", Options{MaxPerHost: 4}, func(c *driver) {
		chunk := chunkOf(1)
		lines := linesOf(slices.Concat(pages("a.test", 0, 3), pages("a.test", 1, 6), pages("b.test", 0, 2))...)
		lines[0].Class, lines[9].Class = frontier.Exact, frontier.Exact
		lines = append(lines, frontier.Line{Refused: frontier.ReasonMalformed}, frontier.Line{Offer: page("b.test", 3), Refused: frontier.ReasonDropRule})
		first := c.submit(chunk, false, lines)
		c.Require(letters(first) == "aaassahhaarr", "the answers are %s", letters(first))
		c.Require(first[10].Reason == frontier.ReasonMalformed && first[11].Reason == frontier.ReasonDropRule, "the refused lines have %+v", first[10:])
		books := c.books()
		c.wantStats(counts{"found": 10, "added": 6, "seen": 2, "refused: max_per_host": 2})
		again := func() {
			c.sameAnswers(c.submit(chunk, true, lines), first)
			changed := slices.Clone(lines) // the rules have changed meanwhile
			changed[0].Refused, changed[11].Refused = frontier.ReasonDropRule, ""
			c.sameAnswers(c.submit(chunk, true, changed), first)
			verdicts, answered, err := c.submitter().Answered(c.Ctx, chunk)
			c.Must(err, "Answered")
			c.Require(answered, "there is no answer")
			c.sameAnswers(verdicts, first)
			c.wantBooks(books)
		}
		again()
		c.finish()
		c.finish()
		books = c.books()
		again()
		for _, restart := range []func(Reopener) (Crawl, error){Reopener.Crash, Reopener.Reopen} {
			c.restart(restart)
			again()
		}
		c.wantAudit()
	}},
	{"SubmitRefusesAnotherContent", Options{}, func(c *driver) {
		chunk, other := chunkOf(1), chunkOf(1)
		other.Digest[0]++
		_, answered, err := c.submitter().Answered(c.Ctx, chunk)
		c.Require(!answered && err == nil, "there is an answer to a chunk that nobody submitted: %v", err)
		c.submit(chunk, false, linesOf(page("a.test", 0)))
		_, _, err = c.submitter().Submit(c.Ctx, other, linesOf(page("a.test", 1)))
		c.Require(errors.Is(err, frontier.ErrOtherPayload), "Submit with another digest = %v, want ErrOtherPayload", err)
		_, _, err = c.submitter().Answered(c.Ctx, other)
		c.Require(errors.Is(err, frontier.ErrOtherPayload), "Answered with another digest = %v, want ErrOtherPayload", err)
		_, _, err = c.submitter().RetryOnce(c.Ctx, other, frontier.Failures{})
		c.Require(errors.Is(err, frontier.ErrOtherPayload), "RetryOnce with another digest = %v, want ErrOtherPayload", err)
		c.wantState(page("a.test", 1), frontier.Unknown)
		c.sameAnswers(c.submit(chunkOf(2), false, linesOf(page("a.test", 0))), []frontier.Verdict{{Answer: frontier.Seen}})
	}},
	{"SubmitKeepsAnswersForTheirTime", Options{}, func(c *driver) {
		if _, elsewhere := c.Crawl.(AnswersExpire); elsewhere {
			return
		}
		offers := pages("a.test", 0, 5)
		var all []frontier.Chunk
		for n := range 300 { // more than are removed at once
			chunk := chunkOf(byte(n))
			chunk.ID[1], chunk.TTL = byte(n>>8), time.Hour
			all = append(all, chunk)
			c.submit(chunk, false, linesOf(offers...))
			c.Clock.Advance(time.Second)
		}
		c.Clock.Advance(time.Hour - 301*time.Second)
		c.submit(all[0], true, linesOf(offers...))
		c.Clock.Advance(2 * time.Second)
		c.Require(letters(c.submit(all[0], false, linesOf(offers...))) == "sssss", "a submission whose time is over adds URLs again")
		c.submit(all[0], true, linesOf(offers...))
		c.submit(all[299], true, linesOf(offers...))
		c.Clock.Advance(30 * time.Minute)
		c.submit(all[0], true, linesOf(offers...)) // the sweep of its first answer does not remove the second one
		c.submit(all[299], false, linesOf(offers...))
		c.wantStats(counts{"added": 5})
		c.wantAudit()
	}},
	{"RacersSubmitOnce", Options{}, func(c *driver) {
		const chunks, size = 20, 50
		var answers sync.Map
		c.Race(racers, func(int) error {
			for n := range chunks { // the chunks overlap
				verdicts, _, err := c.submitter().Submit(c.Ctx, chunkOf(byte(n)), linesOf(pages(fmt.Sprintf("h%d.test", n%4), n/4*30, n/4*30+size)...))
				if err != nil {
					return err
				}
				if first, twice := answers.LoadOrStore(n, letters(verdicts)); twice && first != letters(verdicts) {
					return fmt.Errorf("chunk %d is answered with %s and %v", n, letters(verdicts), first)
				}
			}
			return nil
		})
		added := uint64(0)
		answers.Range(func(_, text any) bool {
			for _, letter := range text.(string) {
				if letter == 'a' {
					added++
				}
			}
			return true
		})
		c.want("URLs that are answered with added", added, 4*(4*30+size))
		c.wantStats(counts{"added": added, "found": chunks * size, "queued": added})
		c.wantAudit()
	}},
	{"KeepKeepsTheFirst", Options{}, func(c *driver) {
		keep := func(answer, want string) {
			kept, err := c.submitter().Keep(c.Ctx, chunkOf(1), answer)
			c.Must(err, "Keep")
			c.Require(kept == want, "Keep(%q) = %q, want %q", answer, kept, want)
		}
		keep("", "")
		keep("first", "first")
		keep("second", "first")
		c.restart(Reopener.Crash)
		keep("", "first")
		other := chunkOf(1)
		other.Digest[0]++
		_, err := c.submitter().Keep(c.Ctx, other, "")
		c.Require(errors.Is(err, frontier.ErrOtherPayload), "Keep with another digest = %v, want ErrOtherPayload", err)
	}},
	{"RetryOnceQueuesOnce", Options{}, func(c *driver) {
		const urls = 2500 // more than one step
		for n := 0; n < urls; n += 500 {
			c.add(pages(fmt.Sprintf("h%d.test", n), 0, 500)...)
		}
		fail := func() {
			for failed := 0; failed < urls; {
				l := c.lease()
				c.endAfter(l, all(l.Items, brokenOff)...)
				failed += len(l.Items)
			}
		}
		fail()
		retry := func(id byte, repeated bool, want int) {
			n, again, err := c.submitter().RetryOnce(c.Ctx, chunkOf(id), frontier.Failures{})
			c.Must(err, "RetryOnce")
			c.Require(n == want && again == repeated, "RetryOnce = %d, repeated %t, want %d, %t", n, again, want, repeated)
		}
		retry(1, false, urls)
		retry(1, true, urls)
		fail()
		c.restart(Reopener.Crash)
		retry(1, true, urls)
		c.wantPlaces(0, 0, 0, urls)
		retry(2, false, urls)
		c.wantPlaces(urls, 0, 0, 0)
		retry(3, false, 0)
		c.wantAudit()
	}},
	{"RacersRetryOnce", Options{}, func(c *driver) {
		const urls = 500
		for n := range 5 {
			c.add(pages(fmt.Sprintf("h%d.test", n), 0, urls/5)...)
		}
		for failed := 0; failed < urls; {
			l := c.lease()
			c.endAfter(l, all(l.Items, brokenOff)...)
			failed += len(l.Items)
		}
		c.Race(racers, func(int) error {
			n, _, err := c.submitter().RetryOnce(c.Ctx, chunkOf(1), frontier.Failures{})
			if err == nil && n != urls {
				err = fmt.Errorf("RetryOnce = %d, want %d", n, urls)
			}
			return err
		})
		c.wantPlaces(urls, 0, 0, 0)
		c.wantAudit()
	}},
}

func (d *driver) submitter() frontier.Submitter { return d.Crawl }

// chunkOf returns a chunk that is kept for a day.
func chunkOf(n byte) frontier.Chunk {
	return frontier.Chunk{ID: [32]byte{n}, Digest: [32]byte{31: n}, TTL: 24 * time.Hour}
}

// linesOf returns the lines of offers.
func linesOf(offers ...frontier.Offer) (lines []frontier.Line) {
	for _, offer := range offers {
		lines = append(lines, frontier.Line{Offer: offer})
	}
	return lines
}

// submit submits a chunk, and checks whether it is a repeat.
func (d *driver) submit(c frontier.Chunk, repeated bool, lines []frontier.Line) []frontier.Verdict {
	verdicts, again, err := d.submitter().Submit(d.Ctx, c, lines)
	d.Must(err, "Submit")
	d.Require(again == repeated && len(verdicts) == len(lines), "Submit returns %d verdicts on %d lines, repeated %t, want %t", len(verdicts), len(lines), again, repeated)
	return verdicts
}

// letters returns the first letter of each answer, and h for a host that is full.
func letters(verdicts []frontier.Verdict) (text string) {
	for _, v := range verdicts {
		if v.Reason == frontier.ReasonHostLimit {
			text += "h"
		} else {
			text += v.Answer.String()[:1]
		}
	}
	return text
}

func (d *driver) sameAnswers(got, want []frontier.Verdict) {
	d.Require(slices.Equal(got, want), "the answers are %+v, want %+v", got, want)
}

// wantBooks checks that no offer was counted since.
func (d *driver) wantBooks(before frontier.Stats) {
	now := counters(d.books())
	diff := countsDiff(now, counters(before))
	d.Require(len(diff) == 0, "a repeat changed the counters: %q", diff)
}
