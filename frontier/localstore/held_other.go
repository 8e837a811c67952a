//go:build !unix

package localstore

// heldByOther reports false: these systems do not say who has locked a file.
func heldByOther(string) bool { return false }
