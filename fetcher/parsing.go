package fetcher

import (
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/internal/extract"
)

// A page can be written so that reading it takes hours. So the work on the content of a page has
// a limit, and the worker's turns to do such work are shared:
//
//   - As many visits as there are processors have a turn. Others wait, in the order in which
//     they came.
//   - A turn lasts turnTime. A visit that needs more waits again, behind the others.
//   - After DocumentTime of its own turns, the page is done, without the data that is missing.
//   - A host whose page took dearTime or longer rests for hostRests times as long, 100 s at most.
const (
	turnTime  = 100 * time.Millisecond
	dearTime  = time.Second
	hostRests = 10
)

// DocumentTime is how long the work on the content of one page may take: building its document,
// and taking fields and text from it.
const DocumentTime = 10 * time.Second

// effort is the work of a visit on the content of its page.
type effort struct {
	parsing bool          // the visit has its turn
	began   time.Time     // when its turn began
	took    time.Duration // all earlier turns
	spent   bool          // the turns took longer than Crawl.documentTime
}

// takeReader waits until another body may be parsed. It returns false if requests were aborted.
func (c *Crawl) takeReader() bool {
	select {
	case c.readers <- struct{}{}:
	case <-c.hard.Done():
		return false
	}
	if c.hard.Err() != nil {
		<-c.readers
		return false
	}
	return true
}

// beginParsing waits for the visit's turn to parse. It returns false if requests were aborted.
func (v *visited) beginParsing() bool {
	v.effort.parsing = v.takeReader()
	v.effort.began = time.Now()
	return v.effort.parsing
}

// endParsing gives the turn back, if the visit has it.
func (v *visited) endParsing() {
	if v.effort.parsing {
		v.effort.parsing = false
		v.effort.took += time.Since(v.effort.began)
		<-v.readers
	}
}

// giveUp reports whether to give up the work on the page, because its time is used up or
// requests were aborted. It is called every few steps of the work, in the visit's turn. If the
// turn is over, giveUp waits for the next one.
func (v *visited) giveUp() bool {
	if v.onStep != nil {
		v.onStep(v.item.URL)
	}
	turn := time.Since(v.effort.began)
	v.effort.spent = v.effort.spent || v.effort.took+turn > v.documentTime
	if v.effort.spent || v.hard.Err() != nil {
		return true
	}
	if turn <= turnTime {
		return false
	}
	v.endParsing()
	return !v.beginParsing()
}

// settleEffort names a page whose work was given up, and lets its host pay for dear work.
func (v *visited) settleEffort() {
	took := v.effort.took
	if v.lack == extract.TooSlow {
		v.cfg.Logger.Warn("page took too long, its data is missing",
			slog.String("url", v.item.URL), slog.String("host", v.item.Host), slog.Duration("took", took))
	}
	if took < v.dearTime {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if until := time.Now().Add(hostRests * min(took, DocumentTime)); until.After(v.notBefore) {
		v.notBefore = until
	}
}
