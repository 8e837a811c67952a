package cli

import (
	"errors"
	"fmt"
	"html"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/fetcher/botauth"
)

// contactFacts are what the page for site owners says.
type contactFacts struct {
	agent, token  string // the whole User-Agent, and the name in robots.txt
	contact, from string
	obeys         bool // robots.txt
	delay         time.Duration
	keys          string // the URL of their directory; empty without signatures
	addresses     []netip.Addr
}

// contactHead begins the page. Its verb is the name of the crawler.
const contactHead = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>%[1]s: a web crawler</title>
<style>
body { max-width: 42rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; color-scheme: light dark }
pre { font-size: .9em; overflow-wrap: anywhere; white-space: pre-wrap }
</style>
<h1>%[1]s</h1>
<p>This crawler requests pages of your site. Its requests have this header:</p>
`

// writeTo writes the page.
func (f *contactFacts) writeTo(w io.Writer) error {
	var page strings.Builder
	escaped := func(format string, values ...any) {
		for i, value := range values {
			values[i] = html.EscapeString(fmt.Sprint(value))
		}
		fmt.Fprintf(&page, format, values...)
	}
	escaped(contactHead, f.token)
	escaped("<pre>User-Agent: %s", f.agent)
	if f.from != "" {
		escaped("\nFrom: %s", f.from)
	}
	page.WriteString("</pre>\n")
	switch {
	case strings.HasPrefix(f.contact, "https://"), strings.HasPrefix(f.contact, "http://"):
		escaped("<p>Its operator: <a href=\"%[1]s\">%[1]s</a></p>\n", f.contact)
	case f.contact != "":
		escaped("<p>Its operator: %s</p>\n", f.contact)
	}
	page.WriteString("<h2>Slow it down, or stop it</h2>\n")
	if f.obeys {
		escaped(`<p>It obeys robots.txt, which it reads again after a day at the latest. This slows it down to a request in 30
seconds:</p>
<pre>User-agent: %[1]s
Crawl-delay: 30</pre>
<p>This stops it:</p>
<pre>User-agent: %[1]s
Disallow: /</pre>
`, f.token)
	} else {
		page.WriteString("<p>It does not obey robots.txt. Please write to its operator.</p>\n")
	}
	escaped(`<p>It waits %s between two requests to a host, and longer if the host is slow. It also waits when your server
answers 429 or 503, for as long as Retry-After says.</p>
`, f.delay)
	if f.keys != "" || len(f.addresses) > 0 {
		page.WriteString("<h2>Recognise it</h2>\n")
	}
	if f.keys != "" {
		escaped(`<p>Each request is signed (HTTP Message Signatures, RFC 9421, with the tag web-bot-auth). Other programs can
send its name, but not its signature. The public keys are at <a href="%[1]s">%[1]s</a>.</p>
`, f.keys)
	}
	if len(f.addresses) > 0 {
		page.WriteString("<p>Its requests come from these addresses:</p>\n<pre>")
		for _, address := range f.addresses {
			escaped("%s\n", address)
		}
		page.WriteString("</pre>\n")
	}
	page.WriteString("</html>\n")
	_, err := io.WriteString(w, page.String())
	return err
}

// newContact returns the command that prints a page for the owners of sites.
func newContact(s streams) *cobra.Command {
	o := new(options)
	var p *plan
	cmd := &cobra.Command{
		Use:   "contact [SEED...] [flags of crawl]",
		Short: "Print a page for the owners of sites: who crawls, and how to slow it down",
		Long: `Print a page (HTML) for the owners of sites that 'crawler crawl' with the same
arguments requests: the name of the crawler, its keys and addresses, and how to
slow it down or stop it. Publish it at the URL of --contact.`,
		Example: "  crawler contact --dir go.dev.crawl > bot.html",
	}
	addSections(cmd, o.newFlags())
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		p, err = o.resolve(cmd.Context(), cmd.Flags(), args)
		if errors.Is(err, errNoCrawl) { // of a new crawl
			o.dirFlag = "HOST.crawl"
			p, err = o.resolve(cmd.Context(), cmd.Flags(), args)
		}
		return err
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		set := &p.crawl.Settings
		from := set.Headers.Get("From")
		if set.Contact == "" && from == "" {
			fmt.Fprintln(s.err, "crawler: the crawl names no contact: give --contact, so that requests name it, too")
		}
		agent, token := p.crawl.Agent()
		facts := contactFacts{
			agent: agent, token: token, contact: set.Contact, from: from,
			obeys: set.Robots == "obey", delay: set.Delay, addresses: set.Bind,
		}
		if set.Sign != "" {
			facts.keys = botauth.DirectoryURL(set.SignatureAgent)
		}
		return facts.writeTo(s.out)
	}
	return cmd
}
