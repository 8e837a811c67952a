package crawl

import "syscall"

const (
	// otherDescriptors is the number of descriptors reserved for files, and for
	// connections other than those to hosts. If the limit of descriptors is low, half
	// of them are reserved instead.
	otherDescriptors = 512
	// autoConnections is the largest number of connections if Concurrency is 0.
	autoConnections = 16384
)

// MaxConcurrency returns the largest Concurrency for which this process can open enough
// connections. The Go runtime has raised the soft limit of descriptors to the hard one.
func MaxConcurrency() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return otherDescriptors
	}
	all := int(min(limit.Cur, 1<<20))
	return max(all-min(otherDescriptors, all/2), 1)
}

// maxConnections returns how many requests can be under way at once. The other
// descriptors are for idle connections.
func (p *Plan) maxConnections() int {
	half := MaxConcurrency() / 2
	if p.Settings.Concurrency == 0 {
		return max(min(half, autoConnections), 1)
	}
	return max(half, min(p.Settings.Concurrency, MaxConcurrency()), 1)
}

// keptConnections returns how many idle connections are kept: about one for each host
// that waits for its delay. Keeping a connection costs less than making a new one.
func (p *Plan) keptConnections() int {
	most := max(MaxConcurrency()-p.maxConnections(), 1)
	if p.Settings.Concurrency == 0 {
		return most
	}
	return min(most, max(512, 4*p.Settings.Concurrency))
}
