package fetcher

import (
	"context"
	"time"
)

// Resource is a resource that a process can be short of.
type Resource string

const (
	Processor Resource = "cpu"
	Memory    Resource = "memory"
	Bandwidth Resource = "bandwidth"
)

// watch measures the load of the worker and its process once per autoTick. It adjusts the
// number of hosts asked at once, unless Config.Concurrency sets this number. A host is asked
// while a request to it is under way. It holds a slot during that time, or a late slot if the
// request takes longer than lateAfter (see slot.go).
func (c *Crawl) watch(ctx context.Context) {
	climb := newClimber(c.mostSlots())
	ticker := time.NewTicker(autoTick)
	defer ticker.Stop()
	for before := c.finished(); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		var short Resource
		if c.cfg.Scarce != nil {
			short = c.cfg.Scarce()
		}
		if short == "" && c.tally.overdrawn.Load() > 0 {
			short = Bandwidth
		}
		if c.squeezed.Swap(short == Memory) && short != Memory {
			c.Wake()
		}
		if now := c.finished(); c.cfg.Concurrency == 0 {
			inside, limit, waiting := c.slots.prompt.counts()
			next := climb.step(load{
				requests: float64(now-before) / autoTick.Seconds(),
				full:     inside >= limit && (waiting > 0 || c.tally.due.Load()),
				scarce:   short != "", squeezed: short == Memory,
			})
			before = now
			if next != limit {
				c.slots.resize(next)
				c.Wake()
			}
		}
	}
}

// mostSlots returns the largest number of hosts asked at once if Config.Concurrency is 0.
// It is at most half of MaxConnections, because requests to late hosts need connections too.
// A late host is one whose request has taken longer than lateAfter.
func (c *Crawl) mostSlots() int {
	if c.cfg.MaxConnections == 0 {
		return autoMax
	}
	return min(autoMax, max(c.cfg.MaxConnections/2, 1))
}

// finished returns about how many requests have ended: the number of requests that began,
// minus the number of hosts that hold a slot. The climber looks whether more requests end per
// second when there are more slots. The number of requests that began cannot show this,
// because each new slot begins a request at once.
func (c *Crawl) finished() int64 {
	inside, _, _ := c.slots.prompt.counts()
	return int64(c.tally.requests.Load()+c.tally.robots.Load()) - int64(inside)
}

const (
	// autoStart is the initial and the smallest number of hosts asked at once.
	autoStart = 64
	// autoMax is the largest number of hosts asked at once. Config.MaxConnections can
	// reduce both this number and autoStart.
	autoMax = 8192
	// autoTick is the time between two measurements of the load.
	autoTick = 500 * time.Millisecond
	// autoTrial is the number of ticks in which a doubling of the number of hosts must show a
	// gain: the requests per second must grow by the factor autoGain. Most hosts must be able
	// to answer within these ticks.
	autoTrial = 4
	// autoRest is how many ticks the climber waits after a doubling without a gain before
	// it doubles the number again. Each further doubling without a gain doubles this
	// wait, up to autoRestMax.
	autoRest, autoRestMax = 30, 480
	// autoGain is the factor by which the requests per second must grow when the number
	// of hosts doubles. Smaller gains can be noise, or mean that the requests only queue
	// somewhere else.
	autoGain = 1.15
)

// load is what a worker did in one tick.
type load struct {
	requests float64 // per second
	full     bool    // every slot was in use and hosts waited for one
	scarce   bool    // a resource of the process is short: do not grow
	squeezed bool    // memory is short: shrink
}

// climber finds how many hosts to ask at once. It doubles the number at each tick that
// shows a gain, and halves it if a doubling shows no gain within autoTrial ticks. It reads
// no clock. Its caller calls step once per tick.
type climber struct {
	limit, most int
	before      float64 // requests per second before a doubling, until its gain is known; otherwise 0
	trial       int     // ticks left to show a gain
	rest        int     // ticks until the next doubling
	patience    int     // ticks to rest after the next doubling without a gain
}

func newClimber(most int) *climber {
	return &climber{limit: min(autoStart, most), most: most, patience: autoRest}
}

// step returns how many hosts to ask at once during the next tick.
func (c *climber) step(l load) int {
	least := min(autoStart, c.most)
	c.rest = max(c.rest-1, 0)
	if l.squeezed {
		c.limit, c.before, c.rest = max(c.limit*3/4, least), 0, autoRest
		return c.limit
	}
	if !l.full { // more slots would change nothing
		c.before = 0
		return c.limit
	}
	if c.before > 0 && l.requests < autoGain*c.before {
		if c.trial--; c.trial <= 0 {
			c.limit, c.before, c.rest = max(c.limit/2, least), 0, c.patience
			c.patience = min(2*c.patience, autoRestMax)
		}
		return c.limit
	}
	if c.before > 0 {
		c.patience = autoRest
	}
	c.before = 0
	if l.scarce || c.rest > 0 || c.limit >= c.most {
		return c.limit
	}
	c.before, c.trial = l.requests, autoTrial
	c.limit = min(2*c.limit, c.most)
	return c.limit
}
