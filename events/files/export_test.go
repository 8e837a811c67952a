package files

// CountAtMost sets how many bytes one call of Lag counts.
func (o *Outbox) CountAtMost(bytes uint64) { o.lag.limit = bytes }
