package cli

import (
	"bufio"
	"math"
	"os"
	"runtime/debug"
	rtmetrics "runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/internal/human"
)

const (
	// leastMemory is the smallest valid --memory. It suffices for the database (Pebble),
	// the runtime and one host.
	leastMemory = 128 << 20
	// minMemory and maxMemory are the bounds of the default of --memory.
	minMemory, maxMemory = 256 << 20, 2 << 30
	// The default of --memory is the machine's memory divided by memoryShare.
	memoryShare = 8
	// The database of a crawl in a directory has a block cache. Its size is --memory divided by
	// cacheShare, but at least leastCache and at most mostCache. The size matters for crawls
	// of more than about 100,000 hosts, in which most look-ups are for rows on disk. A crawl
	// of a million hosts is 1.5 times as fast with 128 MiB as with 32 MiB.
	cacheShare            = 16
	leastCache, mostCache = 32 << 20, 128 << 20
	// programMemory is the part of --memory for the resident pages of the binary: 34 to
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

// defaultMemory returns the default of --memory: an eighth of the memory of the machine
// or of this process's control group, whichever is smaller.
func defaultMemory() human.Bytes {
	total := min(machineMemory("/proc/meminfo"), groupMemory("/sys/fs/cgroup/memory.max"))
	if total == math.MaxUint64 {
		return minMemory
	}
	return human.Bytes(min(max(total/memoryShare, minMemory), maxMemory))
}

// cacheOf returns the part of memory for the block cache of the database.
func cacheOf(memory uint64) int64 {
	return int64(min(max(memory/cacheShare, leastCache), mostCache))
}

// machineMemory returns MemTotal of a file like /proc/meminfo in bytes, or
// math.MaxUint64 if it cannot be read.
func machineMemory(name string) uint64 {
	f, err := os.Open(name)
	if err != nil {
		return math.MaxUint64
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemTotal:" {
			if kib, err := strconv.ParseUint(fields[1], 10, 50); err == nil {
				return kib << 10
			}
		}
	}
	return math.MaxUint64
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

// keeper limits the memory of this process, without its filter, to --memory. It is not
// safe for concurrent use.
type keeper struct {
	memory uint64
	filter func() uint64 // returns the current size of the filter in bytes
	fixed  bool          // GOMEMLIMIT is set and is not changed
	limit  int64         // the limit that was set last
	cpu    report.CPUMeter
	sample []rtmetrics.Sample
}

// newKeeper returns a keeper, and sets the memory limit of the runtime.
func newKeeper(memory uint64, filter func() uint64) *keeper {
	k := &keeper{memory: memory, filter: filter, fixed: os.Getenv("GOMEMLIMIT") != "", cpu: report.NewCPUMeter(time.Now())}
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
	k.follow()
	return k
}

// follow sets the runtime's memory limit to the sum of memory and the current size of
// the filter.
func (k *keeper) follow() {
	if limit := int64(k.memory + k.filter()); !k.fixed && limit != k.limit {
		debug.SetMemoryLimit(limit)
		k.limit = limit
	}
}

// scarce implements fetcher.Config.Scarce. It returns the resource that is short, or "" if
// there is enough of all resources. Memory is short when the heap cannot grow by leastGrowth
// between two collections. With less room the process would spend most of its time on
// collections.
func (k *keeper) scarce() fetcher.Resource {
	k.follow()
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
