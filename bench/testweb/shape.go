package testweb

import "math"

// page is one page of the web: the index-th of a host. Index 0 is its root.
type page struct{ host, index int }

// branch is how many children a page has in its host's tree, and a host in the
// tree of hosts. Children are found by arithmetic, as in a heap, so that no
// tree is stored.
const branch = 8

// shape says how many pages each host has. It is all that a Web stores of its
// structure: a few numbers for each host, whatever the number of pages.
type shape struct {
	first  []int // first[h] is the number of host h's root among all pages; first[hosts] is the number of pages
	owners []int // likewise for the pages that may own a redirect chain
}

// newShape shares pages out: the first host gets share of them, the others
// fall off with rank^-0.8, none is larger than the first or empty.
func newShape(hosts, pages int, share float64) shape {
	largest := max(int(share*float64(pages)), (pages+hosts-1)/hosts)
	largest = min(largest, pages-(hosts-1)) // every other host needs its root
	weight := make([]float64, hosts)
	for h := 1; h < hosts; h++ {
		weight[h] = math.Pow(float64(h), -0.8)
	}
	size := func(h int, scale float64) int {
		if h == 0 {
			return largest
		}
		return int(min(max(scale*weight[h], 1), float64(largest)))
	}
	total := func(scale float64) (sum int) {
		for h := range hosts {
			sum += size(h, scale)
		}
		return sum
	}
	low, high := 0.0, float64(pages)*math.Pow(float64(hosts), 0.8)+1
	for range 64 {
		if middle := (low + high) / 2; total(middle) <= pages {
			low = middle
		} else {
			high = middle
		}
	}
	sizes := make([]int, hosts)
	for h := range sizes {
		sizes[h] = size(h, low)
	}
	for left := pages - total(low); left > 0; { // what rounding down left over
		for h := 0; h < hosts && left > 0; h++ {
			if sizes[h] < largest {
				sizes[h]++
				left--
			}
		}
	}
	s := shape{first: make([]int, hosts+1), owners: make([]int, hosts+1)}
	for h, n := range sizes {
		s.first[h+1] = s.first[h] + n
		s.owners[h+1] = s.owners[h] + (linkers(n)+1)/2
	}
	return s
}

// linkers returns how many pages of a host of n, counted from its root, others
// hang from: the inner nodes of its tree, and the root in any case.
func linkers(n int) int { return max(1, (n-1+branch-1)/branch) }

func (s shape) hosts() int { return len(s.first) - 1 }
func (s shape) pages() int { return s.first[s.hosts()] }

// size returns the number of host's pages.
func (s shape) size(host int) int { return s.first[host+1] - s.first[host] }

// inner reports whether other pages are reached through p, so that it has to
// be fetched in the end.
func (s shape) inner(p page) bool { return p.index < linkers(s.size(p.host)) }

// number returns where p stands among all pages.
func (s shape) number(p page) int { return s.first[p.host] + p.index }

// children calls visit for the pages that hang from p: those of its host's
// tree, and for a root those of the tree of hosts. Following them from the
// first host's root leads to every page.
func (s shape) children(p page, visit func(page)) {
	last := min(branch*p.index+branch, s.size(p.host)-1)
	for child := branch*p.index + 1; child <= last; child++ {
		visit(page{p.host, child})
	}
	if p.index > 0 {
		return
	}
	last = min(branch*p.host+branch, s.hosts()-1)
	for host := branch*p.host + 1; host <= last; host++ {
		visit(page{host, 0})
	}
}
