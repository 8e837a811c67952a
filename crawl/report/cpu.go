package report

import (
	"runtime"
	"syscall"
	"time"
)

// Cores returns the number of cores that this process can use.
func Cores() int { return min(runtime.GOMAXPROCS(0), runtime.NumCPU()) }

// CPUMeter measures the share of all cores that this process uses.
type CPUMeter struct {
	at   time.Time
	used time.Duration
	last float64
}

// NewCPUMeter returns a CPUMeter that begins to measure at the time now.
func NewCPUMeter(now time.Time) CPUMeter { return CPUMeter{at: now, used: cpuTime()} }

// Read returns the share since the last call, from 0 to 1.
func (c *CPUMeter) Read(now time.Time) float64 {
	used, wall := cpuTime(), now.Sub(c.at)
	if wall < 10*time.Millisecond { // the system counts CPU time in ticks
		return c.last
	}
	c.last = min(max((used-c.used).Seconds()/wall.Seconds()/float64(Cores()), 0), 1)
	c.at, c.used = now, used
	return c.last
}

// cpuTime returns the CPU time that this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
