package cli

import (
	"os"
	"testing"
)

// urlsVariable is the variable of --urls.
const urlsVariable = "CRAWLER_URLS"

// TestMain makes the filters of all crawls small, except in tests of the value of --urls. Otherwise each crawl
// would count and write 42 MB.
func TestMain(m *testing.M) {
	if err := os.Setenv(urlsVariable, "1k"); err != nil {
		panic(err)
	}
	m.Run()
}
