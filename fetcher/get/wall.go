package get

import (
	"bytes"
	"fmt"
	"html"
	"maps"
	"net/http"
	"regexp"
	"slices"
)

// A Wall is a refusal that comes from a service in front of a server, or from the server's rules for
// crawlers. It says nothing about the page. The zero Wall means that an answer is none.
type Wall struct {
	Reason WallReason
	Sign   string // by what the wall was known
}

// WallReason is what a wall demands.
type WallReason string

// The reasons.
const (
	Payment   WallReason = "payment"   // money
	Signature WallReason = "signature" // a signature of the crawler's operator
	Challenge WallReason = "challenge" // a proof that the client is a person, or a browser
	Login     WallReason = "login"     // that the crawler logs in again; see Config.LoggedOut
	Rate      WallReason = "rate"      // fewer requests; not a 429 of the server itself, which is frontier.Throttled
)

// WallPrefix begins the result of Wall.String.
const WallPrefix = "wall: "

// String returns the text for records and logs.
func (w Wall) String() string { return fmt.Sprintf("%s%s (%s)", WallPrefix, w.Reason, w.Sign) }

// walls are the signs of walls. A row applies if all its fields do; an empty field always does. Each
// source was read on the date behind it.
var walls = []struct {
	header string         // of the answer
	value  *regexp.Regexp // of header
	status []int
	title  *regexp.Regexp // of the page in the body
	reason WallReason
}{
	// By header, at any status.

	// https://developers.cloudflare.com/cloudflare-challenges/challenge-types/challenge-pages/detect-response (2026-11-30)
	{header: "Cf-Mitigated", value: regexp.MustCompile(`(?i)^challenge$`), reason: Challenge},
	// https://docs.aws.amazon.com/waf/latest/developerguide/waf-captcha-and-challenge-actions.html (2026-11-30):
	// a challenge has the status 202, a CAPTCHA 405
	{header: "X-Amzn-Waf-Action", value: regexp.MustCompile(`(?i)^(challenge|captcha)$`), reason: Challenge},
	// https://appwrite.io/docs/products/firewall/actions (2026-11-30)
	{header: "X-Appwrite-Waf-Action", value: regexp.MustCompile(`(?i)^challenge$`), reason: Challenge},
	// https://docs.rs/crate/rover-fetch/0.3.2/source/src/fetcher/challenge.rs (2026-11-30): Vercel, usually with 429
	{header: "X-Vercel-Mitigated", value: regexp.MustCompile(`(?i)^challenge$`), reason: Challenge},
	// https://developers.cloudflare.com/ai-crawl-control/features/pay-per-crawl/use-pay-per-crawl-as-ai-owner/error-codes (2026-11-30).
	// CrawlerForbidden is missing: it is final, as any other 403
	{header: "Crawler-Error", value: regexp.MustCompile(`^(StrongAuthRequired|InvalidSignature)$`), reason: Signature},
	{header: "Crawler-Error", value: regexp.MustCompile(`^(MissingCrawlerPrice|PaymentFailed)$`), reason: Payment},

	// By header and status.

	// RFC 9421, section 5.1, and https://datatracker.ietf.org/doc/draft-ietf-webbotauth-httpsig-protocol (2026-11-30).
	// A server may send this header with each page.
	{header: "Accept-Signature", value: regexp.MustCompile(`tag="web-bot-auth"`), status: slices.Collect(maps.Keys(asksSignature)), reason: Signature},

	// By status.

	// RFC 9110, section 15.5.3, and https://developers.cloudflare.com/changelog/2025-08-27-ai-crawl-control-launch (2026-11-30)
	{status: []int{402}, reason: Payment},

	// By status and title.

	// https://github.com/FlareSolverr/FlareSolverr/blob/033845bed312196a2b7a9479c50bef4c79452fab/src/flaresolverr_service.py (2026-11-30)
	{title: regexp.MustCompile(`^(Just a moment\.\.\.|DDoS-Guard|Attention Required! \| Cloudflare)$`), status: []int{403, 429, 503}, reason: Challenge},
	// https://github.com/TecharoHQ/anubis (2026-11-30), if it is set up to answer with another status than 200
	{title: regexp.MustCompile(`^Making sure you're not a bot!$`), status: []int{401, 403, 429, 503}, reason: Challenge},
	// https://developers.cloudflare.com/rules/custom-errors/reference/error-page-types (2026-11-30): the pages of a rate
	// limit (429) and of a rule against the client (403)
	{title: regexp.MustCompile(`^Access denied \| \S+ used Cloudflare to restrict access$`), status: []int{429}, reason: Rate},
	{title: regexp.MustCompile(`^Access denied \| \S+ used Cloudflare to restrict access$`), status: []int{403}, reason: Challenge},
}

// Wall returns the wall from which the answer comes. A 401 that asks for a password is none, and neither is an answer
// with SignAgain.
func (r *Response) Wall() Wall {
	switch {
	case r.SignAgain:
		return Wall{}
	case r.loggedOut:
		return Wall{Login, "--logged-out"}
	}
	asksPassword := r.Status == http.StatusUnauthorized && r.Header.Get("Www-Authenticate") != ""
	for i := range walls {
		w := &walls[i]
		value := ""
		if w.header != "" {
			value = r.Header.Get(w.header)
		}
		switch {
		case w.header != "" && !w.value.MatchString(value):
		case len(w.status) > 0 && (asksPassword || !slices.Contains(w.status, r.Status)):
		case w.title != nil && !w.title.MatchString(r.title()):
		case w.header != "":
			return Wall{w.reason, w.header + " " + w.value.FindString(value)}
		case w.title != nil:
			return Wall{w.reason, fmt.Sprintf("title %q", r.title())}
		default:
			return Wall{w.reason, fmt.Sprintf("status %d", r.Status)}
		}
	}
	return Wall{}
}

var titleElement = regexp.MustCompile(`(?is)<title(?:\s[^>]*)?>([^<]{0,200})</title`)

// title returns the title of a short body, with single spaces, or "".
func (r *Response) title() string {
	found := titleElement.FindSubmatch(r.Body)
	if found == nil {
		return ""
	}
	return html.UnescapeString(string(bytes.Join(bytes.Fields(found[1]), []byte(" "))))
}
