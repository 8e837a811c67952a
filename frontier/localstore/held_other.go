//go:build !unix

package localstore

// heldByOther returns false: these systems do not tell which process has locked a file.
func heldByOther(string) bool { return false }
