package settings

// Row is one setting.
type Row struct {
	Name      string // of the flag, the key in the config file and the stored setting; the environment has CRAWLER_NAME
	Shorthand string // of the flag; optional
	Section   string // title in the help text; empty means that no flag sets it, only the config file
	Default   string // stored form
	Who       Who
	Kept      Kept
	Help      string // as pflag wants it: a placeholder stands in back quotes

	value func(s *Settings) Value
}

// Value returns the setting of s.
func (r *Row) Value(s *Settings) Value { return r.value(s) }

// Who says who may change a setting.
type Who int

// Values of Who.
const (
	Created Who = iota // it is part of the identity of a crawl, and never changes
	Live               // it is part of the policy of a crawl, for all its workers
	Run                // each run of each worker
)

// Kept says where a setting is kept.
type Kept int

// Values of Kept.
const (
	// Fixed: with the crawl. A run with another value is refused.
	Fixed Kept = iota
	// FixedShared is Fixed in Redis. A crawl in a directory does not have the setting.
	FixedShared
	// FixedExact is Fixed in a directory, and in Redis with Postgres. A crawl in Redis alone does not have the setting.
	FixedExact
	// Later: with the crawl, if it is not the default, as the default of later runs. It decides
	// what is requested, as whom, and what is kept.
	Later
	// Here: in this process's own directory, as the default of later runs there. It concerns one machine,
	// or lifts one of its guards. The crawl has only the names of those that its first run used.
	Here
	// Never: it is not kept.
	Never
)

// In returns where the setting is kept in a crawl in a directory, in Redis (shared), or in Redis with
// Postgres (exact).
func (r *Row) In(shared, exact bool) Kept {
	switch {
	case r.Kept == FixedShared && shared, r.Kept == FixedExact && (exact || !shared):
		return Fixed
	case r.Kept == FixedShared, r.Kept == FixedExact:
		return Never
	}
	return r.Kept
}
