package visits

// HostSum is what the rows of a host sum up to.
type HostSum struct {
	Host   string // its key
	Pages  int64
	Queued int64
	PerDay float64 // visits, if each page is visited when it is due

	// What became of the changes that sitemaps announce (lastmod): a visit found them, a visit did not find them, and
	// a visit found one although a sitemap had said that there was none.
	Right, Wrong, Missed int64
}

// Trusted reports whether the pages of the host are due when a sitemap says that they have changed: it was right at least five
// times, and four of five times, of the changes that it announced and of those that there were.
func (h *HostSum) Trusted() bool {
	return h.Right >= 5 && h.Right >= 4*h.Wrong && h.Right >= 4*h.Missed
}

// perDay returns how often the row wants to be visited.
func (r *Row) perDay() float64 {
	wait := r.due().Unix() - r.Visited.Unix() // rows have times in seconds
	if !r.counts() || r.Missing > 0 || wait <= 0 {
		return 0
	}
	return 24 * 3600 / float64(wait)
}

// host returns what the sums of a host grow by.
func (c *change) host(host string) *HostSum {
	sum := c.hosts[host]
	if sum == nil {
		sum = &HostSum{Host: host}
		c.hosts[host] = sum
	}
	return sum
}

// countHost adds a row n times to the sums of its host.
func (c *change) countHost(r *Row, n int) {
	sum := c.host(r.Item.Host)
	sum.Pages += int64(n)
	sum.PerDay += float64(n) * r.perDay()
	if r.Queued {
		sum.Queued += int64(n)
	}
}
