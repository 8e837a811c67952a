package files

// CountAtMost limits the number of bytes that one call of Lag counts.
func (o *Outbox) CountAtMost(bytes uint64) { o.lag.limit = bytes }
