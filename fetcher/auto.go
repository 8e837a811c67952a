package fetcher

import (
	"context"
	"time"
)

// Resource is what a process can be short of.
type Resource string

const (
	Processor   Resource = "cpu"
	Memory      Resource = "memory"
	Descriptors Resource = "descriptors"
	Bandwidth   Resource = "bandwidth"
)

// watch looks at the worker and its process once a tick, and changes how many
// hosts are asked at once unless Config.Concurrency fixes that.
func (c *Crawl) watch(ctx context.Context) {
	most := autoMax
	if c.cfg.MaxConnections > 0 {
		most = min(most, max(c.cfg.MaxConnections/2, 1))
	}
	climb := newClimber(most)
	ticker := time.NewTicker(autoTick)
	defer ticker.Stop()
	for before := c.requested(); ; {
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
		c.squeezed.Store(short == Memory)
		if now := c.requested(); c.cfg.Concurrency == 0 {
			inside, limit, waiting := c.slots.prompt.counts()
			c.slots.resize(climb.step(load{
				requests: float64(now-before) / autoTick.Seconds(),
				full:     inside >= limit && (waiting > 0 || c.tally.due.Load()),
				scarce:   short != "", squeezed: short == Memory,
			}))
			before = now
			c.Wake()
		}
	}
}

// requested returns how many requests the worker has made.
func (c *Crawl) requested() uint64 { return c.tally.requests.Load() + c.tally.robots.Load() }

const (
	// autoStart is how many hosts are asked at once at first, and the least.
	autoStart = 64
	// autoMax is the most, unless Config.MaxConnections says less.
	autoMax = 16384
	// autoTick is how long a number is tried before it is judged.
	autoTick = time.Second
	// autoRest is for how many ticks a number is kept at first after a larger
	// one brought no more, autoRestMax after that has happened again and again.
	autoRest, autoRestMax = 15, 240
	// autoGain is by which factor requests must grow after the number has
	// doubled: less is noise, or queueing somewhere else.
	autoGain = 1.15
)

// load is what a worker did in one tick.
type load struct {
	requests float64 // per second
	full     bool    // every slot was in use and hosts waited for one
	scarce   bool    // a resource of the process is: do no more
	squeezed bool    // memory is: do less
}

// climber finds how many hosts to ask at once: it doubles the number while that
// brings more requests and no resource is short, and goes back a step when it
// does not. It reads no clock: step is called once a tick.
type climber struct {
	limit, most int
	before      float64 // requests per second before the last doubling; 0: there was none to judge
	settle      int     // ticks until the last change can be judged
	rest        int     // ticks until the next doubling
	patience    int     // ticks to rest after the next one that brings no more
}

func newClimber(most int) *climber {
	return &climber{limit: min(autoStart, most), most: most, patience: autoRest}
}

// step returns the number for the next tick.
func (c *climber) step(l load) int {
	c.rest = max(c.rest-1, 0)
	if l.squeezed {
		c.limit, c.before, c.rest = max(c.limit*3/4, min(autoStart, c.most)), 0, autoRest
		return c.limit
	}
	if !l.full { // more would change nothing
		c.before = 0
		return c.limit
	}
	if c.settle > 0 { // the requests of the new slots have only begun
		c.settle--
		return c.limit
	}
	if c.before > 0 && l.requests < autoGain*c.before {
		c.limit, c.before, c.rest = max(c.limit/2, min(autoStart, c.most)), 0, c.patience
		c.patience = min(2*c.patience, autoRestMax)
		return c.limit
	}
	if c.before > 0 {
		c.patience = autoRest
	}
	if l.scarce || c.rest > 0 || c.limit >= c.most {
		c.before = 0
		return c.limit
	}
	c.before, c.settle = l.requests, 1
	c.limit = min(2*c.limit, c.most)
	return c.limit
}
