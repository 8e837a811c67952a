package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// defaultDir returns the directory of a crawl without --dir. It is named after the host
// of the first seed, or after the seed file. Without seeds, it is the result of findDir.
func defaultDir(args []string, file string) (string, error) {
	switch {
	case len(args) > 0:
		c, err := canon.New(canon.Options{})
		if err != nil {
			return "", err
		}
		url, err := seed.Parse(c, args[0])
		if err != nil {
			return "", fmt.Errorf("argument %s", seed.Fault(args[0], err, seed.WantSeed))
		}
		return hostDir(url), nil
	case file == "-":
		return "", errors.New("seeds from stdin want --dir, the directory that the crawl is kept in")
	case file != "":
		return filepath.Base(file) + ".crawl", nil
	}
	return findDir()
}

// Names of the files that mark directories.
const (
	crawlFile  = "crawl.json"  // in the directory of a crawl
	workerFile = "worker.json" // in the directory of a worker
)

// findDir returns the directory of the only crawl in the current directory. It returns
// errNoCrawl if there is none.
func findDir() (string, error) {
	if _, err := os.Stat(crawlFile); err == nil {
		return ".", nil
	}
	found, _ := filepath.Glob(filepath.Join("*", crawlFile))
	switch len(found) {
	case 1:
		return filepath.Dir(found[0]), nil
	case 0:
		return "", errNoCrawl
	}
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return "", fmt.Errorf("%d crawls in this directory (%s): name one with --dir", len(found), strings.Join(found, ", "))
}

// errNoCrawl reports that the command line names no crawl and that the current directory
// contains none.
var errNoCrawl = errors.New("no crawl in this directory, and no seeds: name a URL, --seeds FILE or --dir DIR")

// hostDir returns the default directory of a crawl whose first seed is url.
func hostDir(url canon.URL) string {
	name := strings.Trim(url.Host(), "[]")
	if port := url.Port(); port != "" { // canonical URLs have no default port
		name += "_" + port
	}
	return name + ".crawl"
}

// maxSeedsText is the length in bytes of the longest text that is stored in full.
const maxSeedsText = 500

// seedsText returns one line with the seeds of a command line: their canonical URLs, and the
// name of the file of --seeds. If the line is long, its end is replaced by the number and a
// hash of the seeds. Two command lines with the same seeds have the same text.
func seedsText(args []string, file string) string {
	var words []string
	form, _ := canon.New(canon.Options{}) // these options are valid
	for _, arg := range args {
		if url, err := form.ParseSeed(arg); err == nil {
			words = append(words, url.String())
		}
	}
	if file != "" {
		words = append(words, "--seeds "+shellQuote(file))
	}
	text := strings.Join(words, " ")
	if len(text) > maxSeedsText {
		return fmt.Sprintf("%.200s… (%d seeds, SHA-256 %x)", text, len(words), sha256.Sum256([]byte(text)))
	}
	return text
}

// checkDefaultDir returns an error if the default directory of the seeds has a crawl that
// was created with other seeds.
func (p *plan) checkDefaultDir() error {
	if p.options.dirFlag != "" || p.seedsGiven == "" || p.at.Redis != nil {
		return nil
	}
	if begun, known := p.crawl.StoredSeeds(); known && begun != p.seedsGiven {
		return fmt.Errorf("%s was begun with other seeds: %s, not %s\n"+
			"'%s' continues that crawl, and seeds given after it are added; another --dir begins another crawl",
			p.at.Dir, begun, p.seedsGiven, p.at.command("crawl"))
	}
	return nil
}
