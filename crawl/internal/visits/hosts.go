package visits

// HostSum is what the rows of a host sum up to.
type HostSum struct {
	Host   string // its key
	Pages  int64
	Queued int64
	PerDay float64 // visits, if each page is visited when it is due
}

// perDay returns how often the row wants to be visited.
func (r *Row) perDay() float64 {
	wait := r.due().Unix() - r.Visited.Unix() // rows have times in seconds
	if !r.counts() || r.Missing > 0 || wait <= 0 {
		return 0
	}
	return 24 * 3600 / float64(wait)
}

// countHost adds a row n times to the sums of its host.
func (c *change) countHost(r *Row, n int) {
	sum := c.hosts[r.Item.Host]
	if sum == nil {
		sum = &HostSum{Host: r.Item.Host}
		c.hosts[r.Item.Host] = sum
	}
	sum.Pages += int64(n)
	sum.PerDay += float64(n) * r.perDay()
	if r.Queued {
		sum.Queued += int64(n)
	}
}
