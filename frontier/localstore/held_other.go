//go:build !unix

package localstore

// heldByOther returns false, because these systems do not report which process has
// locked a file.
func heldByOther(string) bool { return false }
