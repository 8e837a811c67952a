package sizing

import "fmt"

// RevisitBytes returns the bytes on disk of what a crawl in a directory remembers of a page that it visits again. urlBytes is the
// mean length of a URL. RevisitBytes assumes that each page was visited twice and has an ETag, that digests and paths cannot be
// compressed, and that the host has a hundred pages. It is measured with pebble 2.1, a million rows and URLs of 80 bytes: 317
// bytes (go test ./crawl/internal/visits -run - -bench Rows -benchtime 1000000x). It panics if urlBytes is not positive.
func RevisitBytes(urlBytes int) float64 {
	if urlBytes < 1 {
		panic(fmt.Sprintf("sizing: URLs of %d bytes", urlBytes))
	}
	const row = 267 // without path and query
	return row + pathBytes(urlBytes)
}
