package extract

// Mark returns the reason in one word, as records and metrics name it, or "" if nothing is
// missing.
func (l Lack) Mark() string {
	return [...]string{"", "too_deep", "too_large", "too_heavy", "too_slow", "no_memory"}[l]
}
