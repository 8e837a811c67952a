package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// exampleLine matches an example in a help text. Its group is the command, without the words after it.
var exampleLine = regexp.MustCompile(`(?m)^  ((?:crawler|tail|cut) .*?)(?:   .*)?$`)

// endless matches the examples that end only with a signal, or need servers that the test does not
// start. They are interrupted; only their command lines are checked.
var endless = regexp.MustCompile(`testweb|tail -f|relay --to (?:https?|nats):|bench`)

// TestHelpExamplesRun runs every example of every help text in a directory with the files that the
// examples name. An example must succeed, except that endless ones need only a correct command line.
func TestHelpExamplesRun(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil && os.Getenv("CRAWLER_TEST_SERVERS") == "require" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	site := listen(t, func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			switch r.URL.Path {
			case "/robots.txt", "/gone":
				w.WriteHeader(http.StatusNotFound)
			case "/":
				fmt.Fprint(w, `<title>t</title><a href="/doc/">x</a><a href="/gone">y</a><b class="price">7</b>`)
			}
		}))
	})
	redis := servers.Redis(t, servers.RedisOptions{})
	name, value := smallFilter()
	ran := 0
	for _, command := range []string{"", "config", "crawl", "dedup", "export", "links", "list", "output", "relay", "seed", "size", "status", "testweb", "try", "bench"} {
		help, err := exec.Command("crawler", append(strings.Fields(command), "--help")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range exampleLine.FindAllStringSubmatch(string(help), -1) {
			line := example[1]
			if strings.Contains(line, " [") { // a line of "Usage:"
				continue
			}
			ran++
			t.Run(strings.ReplaceAll(line, "/", "_"), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				local := strings.NewReplacer("https://index", "https://index", "https://", "http://", "redis://10.0.0.5:6379/3", redis.URL(),
					"redis://10.0.0.5", redis.URL(), "--name archive", "--name "+filepath.Base(dir)+"-"+strings.ReplaceAll(t.Name()[len(t.Name())-6:], "/", "_"))
				if err := os.WriteFile(filepath.Join(dir, "example"), []byte(local.Replace(line)), 0o600); err != nil {
					t.Fatal(err)
				}
				seconds := "180"
				if endless.MatchString(line) {
					seconds = "5"
				}
				cmd := exec.Command("bash", "-c", local.Replace(setUp(line))+
					"timeout --signal=INT --kill-after=20 "+seconds+" bash example > out 2> errors || { code=$?; cat errors; exit $code; }\n")
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "HOME="+dir, name+"="+value, "CRAWLER_CONNECT_TO=*="+site, "CRAWLER_DELAY=0")
				said, err := cmd.CombinedOutput()
				if strings.Contains(string(said), "Try 'crawler") || err != nil && !endless.MatchString(line) {
					t.Errorf("%v\n%s", err, said)
				}
			})
		}
	}
	if ran < 25 {
		t.Errorf("found %d examples, want 25 or more", ran)
	}
}

// setUp returns the commands that make what an example needs.
func setUp(line string) string {
	script := `set -e
echo https://a.test/ | gzip > hosts.txt.gz; echo https://a.test/ | tee found.log > urls.txt
echo '{"id":7}' > orders.jsonl; echo '1 2 3 4 5 6 /a 200' > access.log; echo whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw > secret; echo '<b class="price">7</b>' > page.html
echo 'delay: 0' > polite.yaml; printf 'fields:\n  - url: .\n    fields:\n      price: .price\n' > shop.yaml
crawler crawl --links --quiet --dir go.dev.crawl https://go.dev/
`
	switch {
	case strings.Contains(line, "crawler export"):
		script += `crawler crawl --quiet --partitions 4 --redis redis://10.0.0.5 --name archive --dir archive.crawl/w1 https://go.dev/
mkdir other-machine; cp -r archive.crawl other-machine/archive.crawl; mv other-machine/archive.crawl/w1 other-machine/archive.crawl/w2
`
	case strings.Contains(line, "--dir archive.crawl --concurrency"):
		script += "crawler crawl --quiet --dir archive.crawl https://a.test/\n"
	case !strings.Contains(line, "--dir") && !strings.Contains(line, "--redis"):
		script += "export CRAWLER_DIR=go.dev.crawl\n"
	}
	return script
}
