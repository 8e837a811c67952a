package redisstore

// adder is the part of a Store that adds.
type adder struct{}

var adderScripts = []*script{}

// epochChanged forgets what this process believes because of answers of an
// epoch that is over.
func (s *Store) epochChanged() {}
