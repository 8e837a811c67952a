package serve

// ProblemKinds returns the kinds of problems with their statuses.
func ProblemKinds() map[string]int {
	all := make(map[string]int)
	for name, kind := range kinds {
		all[name] = kind.status
	}
	return all
}
