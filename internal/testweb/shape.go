package testweb

import "math"

// A page identifies a page by the number of its host, and its index on this host. Index 0
// is the root page.
type page struct{ host, index int }

// branch is the usual maximum number of children of a page in the tree of its host, and of a
// host in the tree of hosts. The indexes of children are computed, as in a heap. So no
// tree is stored.
const branch = 8

// shape has the number of pages of each host. A Web stores nothing else about its
// structure, so that its memory does not depend on the number of pages.
type shape struct {
	branch int   // maximum number of children; see branch
	first  []int // first[h] is the number of pages of all hosts before h; first[hosts] is the number of all pages
}

// newShape divides pages among hosts. The first host gets the given share of the pages.
// The sizes of the others are proportional to rank^-0.8. No host is larger than the
// first, and none is empty.
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
	for left := pages - total(low); left > 0; { // the remainder of rounding down
		for h := 0; h < hosts && left > 0; h++ {
			if sizes[h] < largest {
				sizes[h]++
				left--
			}
		}
	}
	s := shape{branch: branch, first: make([]int, hosts+1)}
	for h, n := range sizes {
		s.first[h+1] = s.first[h] + n
	}
	return s
}

// linkers returns the number of pages that have children in the tree of a host with n
// pages. The result is at least 1, for the root page. These pages have the lowest
// indexes.
func (s shape) linkers(n int) int { return max(1, (n-1+s.branch-1)/s.branch) }

func (s shape) hosts() int { return len(s.first) - 1 }
func (s shape) pages() int { return s.first[s.hosts()] }

func (s shape) size(host int) int { return s.first[host+1] - s.first[host] }

// inner reports whether a crawl reaches other pages through p. A crawl must be able to
// read such a page.
func (s shape) inner(p page) bool { return p.index < s.linkers(s.size(p.host)) }

// children calls the function visit for the children of p in the tree of its host. If p
// is a root page, it also calls visit for p's children in the tree of hosts. Every page
// is a descendant of the first host's root page.
func (s shape) children(p page, visit func(page)) {
	last := min(s.branch*p.index+s.branch, s.size(p.host)-1)
	for child := s.branch*p.index + 1; child <= last; child++ {
		visit(page{p.host, child})
	}
	if p.index > 0 {
		return
	}
	last = min(s.branch*p.host+s.branch, s.hosts()-1)
	for host := s.branch*p.host + 1; host <= last; host++ {
		visit(page{host, 0})
	}
}
