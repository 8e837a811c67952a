package cli

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// hostDir returns the default directory of a crawl whose first seed is url.
func hostDir(url canon.URL) string {
	name := strings.Trim(url.Host(), "[]")
	if port := url.Port(); port != "" { // canonical URLs have no default port
		name += "_" + port
	}
	return name + ".crawl"
}

// fileDir returns the default directory of a crawl whose seeds are in a file.
func fileDir(file string) string { return filepath.Base(file) + ".crawl" }

// formerDir returns the default directory that earlier versions used: its name
// had no port, and no ending of a file's name.
func formerDir(args []string, file string) string {
	if len(args) == 0 {
		name := strings.TrimSuffix(filepath.Base(file), ".gz")
		return strings.TrimSuffix(name, filepath.Ext(name)) + ".crawl"
	}
	if urls := canonicalSeeds(args[:1]); len(urls) > 0 {
		return strings.Trim(urls[0].Host(), "[]") + ".crawl"
	}
	return ""
}

// canonicalSeeds returns those of args that are URLs.
func canonicalSeeds(args []string) (urls []canon.URL) {
	c, err := canon.New(canon.Options{})
	if err != nil {
		return nil
	}
	for _, arg := range args {
		if url, err := c.ParseSeed(arg); err == nil {
			urls = append(urls, url)
		}
	}
	return urls
}

// seedsSetting is the setting, no flag, that says which seeds the command line
// named when the crawl in a directory was created.
const seedsSetting = "seeds"

// maxSeedsText is the longest text that is stored as it is.
const maxSeedsText = 500

// seedsText describes the seeds of a command line in one line. Two command lines
// with the same seeds have the same text.
func seedsText(args []string, file string) string {
	var words []string
	for _, url := range canonicalSeeds(args) {
		words = append(words, url.String())
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

// checkDefaultDir refuses seeds that would go into a directory that their name
// leads to, but that is the crawl of other seeds.
func (p *plan) checkDefaultDir(ctx context.Context, args []string) error {
	if p.options.dirFlag != "" || p.seedsGiven == "" {
		return nil
	}
	if p.Redis != nil {
		return nil
	}
	if p.stored == nil {
		return p.checkFormerDir(ctx, args)
	}
	if begun, known := p.stored[seedsSetting]; known && begun != p.seedsGiven {
		return fmt.Errorf("%s was begun with other seeds: %s, not %s\n"+
			"'%s' goes on with it, and seeds behind that are added to it; another --dir begins another crawl",
			p.Dir, begun, p.seedsGiven, p.command("crawl"))
	}
	return nil
}

// checkFormerDir refuses to begin a crawl anew that an earlier version may have
// begun under another name.
func (p *plan) checkFormerDir(ctx context.Context, args []string) error {
	former := inDirectory(formerDir(args, p.options.seeds))
	if former.Dir == "" || former.Dir == p.Dir {
		return nil
	}
	stored, err := crawl.Stored(ctx, former.Location)
	if _, known := stored[seedsSetting]; err != nil || stored == nil || known {
		return nil // it is no crawl, or not of an earlier version
	}
	return fmt.Errorf("%s may be the crawl of these seeds: an earlier version gave it that name.\n"+
		"'%s' goes on with it; --dir %s begins another crawl", former.Dir, former.command("crawl"), shellQuote(p.Dir))
}
