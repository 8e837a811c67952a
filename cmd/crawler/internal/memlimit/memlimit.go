// Package memlimit bounds the memory of a process that runs a crawl.
//
// It owns the memory limit of Go's runtime, and decides when a crawl must lease no more
// hosts because memory or processor time is short. It changes a limit of the whole process,
// so it belongs to the program and not to package crawl. It does not bound what is made of answers:
// crawl.Config.Memory does.
package memlimit

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	rtmetrics "runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
)

// Least is the smallest memory for which New is useful. It suffices for the database
// (Pebble), the runtime and one host.
const Least = 128 << 20

const (
	// minDefault and maxDefault are the bounds of Default.
	minDefault, maxDefault = 256 << 20, 2 << 30
	// Default is the machine's memory divided by defaultShare.
	defaultShare = 8
	// The database of a crawl in a directory has a block cache. Its size is the memory divided
	// by cacheShare, but at least leastCache and at most mostCache. The size matters for crawls
	// of more than about 100,000 hosts, in which most look-ups are for rows on disk. A crawl
	// of a million hosts is 1.5 times as fast with 128 MiB as with 32 MiB.
	cacheShare            = 16
	leastCache, mostCache = 32 << 20, 128 << 20
	// programMemory is the part of the memory for the resident pages of the binary: 34 to
	// 36 MB in a broad crawl (RssFile in /proc/PID/status). The runtime's limit does not
	// count them.
	programMemory = 32 << 20
	// leastGrowth is how much the heap must be able to grow between two garbage
	// collections, in percent of the live bytes. If less memory is left, the crawl leases
	// no more hosts. If enough memory is left, the heap grows by 100 percent (GOGC=100).
	// GOGC=200 was not better. At 4,000 hosts, it reduced the processor time of collections
	// from 14 to 9 percent, but increased that of page faults. A crawl of two fast hosts
	// took 5 percent longer.
	leastGrowth = 50
)

// Default returns a limit for a process without a filter: an eighth of the memory of the
// machine or of this process's control group, whichever is smaller.
func Default() uint64 {
	total := min(machineMemory("/proc/meminfo"), groupMemory("/sys/fs/cgroup/memory.max"))
	if total == math.MaxUint64 {
		return minDefault
	}
	return min(max(total/defaultShare, minDefault), maxDefault)
}

// Cache returns the part of memory that crawl.Config.Cache should have.
func Cache(memory uint64) int64 {
	return int64(min(max(memory/cacheShare, leastCache), mostCache))
}

// machineMemory returns MemTotal of a file like /proc/meminfo in bytes, or
// math.MaxUint64 if it cannot be read.
func machineMemory(name string) uint64 {
	text, err := os.ReadFile(name)
	if err != nil {
		return math.MaxUint64
	}
	_, text, _ = bytes.Cut(text, []byte("MemTotal:"))
	var kib uint64
	if _, err := fmt.Sscanf(string(text), "%d kB", &kib); err != nil {
		return math.MaxUint64
	}
	return kib << 10
}

// groupMemory returns the bytes that a control group may use, or math.MaxUint64 if there
// is no limit.
func groupMemory(name string) uint64 {
	text, err := os.ReadFile(name)
	if err != nil {
		return math.MaxUint64
	}
	limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil { // the text is "max"
		return math.MaxUint64
	}
	return limit
}

// Keeper limits the memory of this process, without the filter of its crawl. It is not safe
// for concurrent use.
type Keeper struct {
	memory uint64
	filter func() uint64 // returns the current size of the filter in bytes
	fixed  bool          // the limit of the runtime is not changed
	limit  int64         // the limit that was set last
	cpu    report.CPUMeter
	sample []rtmetrics.Sample
}

// New returns a Keeper for a process that may use this memory beside its filter, and sets the
// memory limit of the runtime. If memory is 0, it keeps the runtime's limit, such as that of
// GOMEMLIMIT, which includes the filter. The function filter returns the current size of the
// filter in bytes.
func New(memory uint64, filter func() uint64) *Keeper {
	k := &Keeper{memory: memory, filter: filter, fixed: memory == 0, cpu: report.NewCPUMeter(time.Now())}
	for _, name := range []string{
		"/gc/heap/live:bytes", "/memory/classes/total:bytes", "/memory/classes/heap/released:bytes",
		"/memory/classes/heap/free:bytes", "/memory/classes/heap/unused:bytes", "/memory/classes/heap/objects:bytes",
	} {
		k.sample = append(k.sample, rtmetrics.Sample{Name: name})
	}
	if k.fixed {
		k.memory = uint64(max(debug.SetMemoryLimit(-1)-int64(filter()), 0))
	} else {
		k.memory -= min(programMemory, k.memory/2)
	}
	k.Follow()
	return k
}

// Follow sets the runtime's memory limit to the sum of memory and the current size of
// the filter.
func (k *Keeper) Follow() {
	if limit := int64(k.memory + k.filter()); !k.fixed && limit != k.limit {
		debug.SetMemoryLimit(limit)
		k.limit = limit
	}
}

// Scarce implements fetcher.Config.Scarce. It returns the resource that is short, or "" if
// there is enough of all resources. Memory is short when the heap cannot grow by leastGrowth
// between two collections. With less room the process would spend most of its time on
// collections.
func (k *Keeper) Scarce() fetcher.Resource {
	k.Follow()
	rtmetrics.Read(k.sample)
	value := func(i int) uint64 { return k.sample[i].Value.Uint64() }
	live, filter := value(0), k.filter()
	beside := value(1) - value(2) - value(3) - value(4) - value(5) // stacks, and memory of the runtime itself
	grown := (live - min(live, filter)) * (100 + leastGrowth) / 100
	switch {
	case grown+beside > k.memory:
		return fetcher.Memory
	case k.cpu.Read(time.Now()) >= 0.95:
		return fetcher.Processor
	}
	return ""
}
