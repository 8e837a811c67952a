package get

import (
	"net/http"
	"strings"
	"testing"
)

func answerOf(status int, body string, header ...string) *Response {
	r := &Response{Status: status, Header: http.Header{}, Body: []byte(body)}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// TestWalls has an answer for each sign of a wall.
func TestWalls(t *testing.T) {
	t.Parallel()
	const denied = "<title>Access denied | shop.example used Cloudflare to restrict access</title>"
	known := map[string]bool{}
	for _, test := range []struct {
		answer *Response
		want   string
	}{
		{answerOf(403, "", "Cf-Mitigated", "challenge"), "wall: challenge (Cf-Mitigated challenge)"},
		{answerOf(200, "a page", "Cf-Mitigated", "challenge"), "wall: challenge (Cf-Mitigated challenge)"},
		{answerOf(503, "", "Cf-Mitigated", "Challenge"), "wall: challenge (Cf-Mitigated Challenge)"},
		{answerOf(401, "", "Cf-Mitigated", "challenge", "Www-Authenticate", "Basic"), "wall: challenge (Cf-Mitigated challenge)"},
		{answerOf(202, "", "X-Amzn-Waf-Action", "challenge"), "wall: challenge (X-Amzn-Waf-Action challenge)"},
		{answerOf(405, "", "X-Amzn-Waf-Action", "captcha"), "wall: challenge (X-Amzn-Waf-Action captcha)"},
		{answerOf(403, "", "X-Appwrite-Waf-Action", "challenge"), "wall: challenge (X-Appwrite-Waf-Action challenge)"},
		{answerOf(429, "", "X-Vercel-Mitigated", "challenge"), "wall: challenge (X-Vercel-Mitigated challenge)"},
		{answerOf(400, "", "Crawler-Error", "StrongAuthRequired"), "wall: signature (Crawler-Error StrongAuthRequired)"},
		{answerOf(400, "", "Crawler-Error", "InvalidSignature"), "wall: signature (Crawler-Error InvalidSignature)"},
		{answerOf(402, "", "Crawler-Error", "MissingCrawlerPrice", "Crawler-Price", "USD 0.01"), "wall: payment (Crawler-Error MissingCrawlerPrice)"},
		{answerOf(403, "", "Crawler-Error", "PaymentFailed"), "wall: payment (Crawler-Error PaymentFailed)"},
		{answerOf(403, "", "Accept-Signature", `sig1=("@authority");tag="web-bot-auth"`), `wall: signature (Accept-Signature tag="web-bot-auth")`},
		{answerOf(401, "", "Accept-Signature", `sig1=("@authority");tag="web-bot-auth"`), `wall: signature (Accept-Signature tag="web-bot-auth")`},
		{answerOf(402, "", "Crawler-Price", "USD 0.01"), "wall: payment (status 402)"},
		{answerOf(402, ""), "wall: payment (status 402)"},
		{answerOf(403, "<!DOCTYPE html><html><head><TITLE>Just a moment...</TITLE>"), `wall: challenge (title "Just a moment...")`},
		{answerOf(503, "<title>\n Just a\n moment... </title>"), `wall: challenge (title "Just a moment...")`},
		{answerOf(403, "<title>DDoS-Guard</title>"), `wall: challenge (title "DDoS-Guard")`},
		{answerOf(403, "<title>Attention Required! | Cloudflare</title>"), `wall: challenge (title "Attention Required! | Cloudflare")`},
		{answerOf(401, "<title>Making sure you&#39;re not a bot!</title>"), `wall: challenge (title "Making sure you're not a bot!")`},
		{answerOf(429, denied), `wall: rate (title "Access denied | shop.example used Cloudflare to restrict access")`},
		{answerOf(403, denied), `wall: challenge (title "Access denied | shop.example used Cloudflare to restrict access")`},
	} {
		wall := test.answer.Wall()
		if got := wall.String(); got != test.want {
			t.Errorf("status %d, %v, %.40q: %s, want %s", test.answer.Status, test.answer.Header, test.answer.Body, got, test.want)
		}
		known[string(wall.Reason)+" by "+strings.Fields(wall.Sign)[0]] = true
	}
	for i := range walls {
		w := &walls[i]
		by := w.header
		if w.title != nil {
			by = "title"
		} else if by == "" {
			by = "status"
		}
		if !known[string(w.reason)+" by "+by] {
			t.Errorf("row %d, %s by %s, has no answer in this test", i, w.reason, by)
		}
	}
}

// TestNoWalls has answers that mean what their status says.
func TestNoWalls(t *testing.T) {
	t.Parallel()
	for _, answer := range []*Response{
		answerOf(200, "<title>Just a moment...</title><p>A blog post about waiting"),
		answerOf(200, "<title>Making sure you're not a bot!</title>"),
		answerOf(200, "a page", "Accept-Signature", `sig1=("@authority");tag="web-bot-auth"`),
		answerOf(202, "accepted"),
		answerOf(301, "<title>301 Moved Permanently</title>", "Location", "/"),
		answerOf(400, "<title>400 Bad Request</title>"),
		answerOf(400, "", "Crawler-Error", "ConflictingPriceHeaders"),
		answerOf(401, "<title>401 Authorization Required</title>", "Www-Authenticate", `Basic realm="staff"`),
		answerOf(401, "<title>Making sure you're not a bot!</title>", "Www-Authenticate", "Negotiate"),
		answerOf(401, "", "Www-Authenticate", "Bearer", "Accept-Signature", `sig1=();tag="web-bot-auth"`),
		answerOf(401, "<title>Log in</title>"),
		answerOf(403, ""),
		answerOf(403, "<html>\n<head><title>403 Forbidden</title></head>\n<body>\n<center><h1>403 Forbidden</h1></center>\n<hr><center>nginx</center>", "Server", "nginx"),
		answerOf(403, "<title>403 Forbidden</title>", "Server", "cloudflare", "Cf-Ray", "8a1b-FRA"),
		answerOf(403, "<title>Access Denied</title>You don't have permission to access this on this server."),
		answerOf(403, "<title>Access denied</title>", "X-Amzn-Requestid", "1"),
		answerOf(403, "<title>Forbidden | Just a moment... our shop</title>"),
		answerOf(403, "<h1>Just a moment...</h1><title>Members only</title>"),
		answerOf(403, "", "Crawler-Error", "CrawlerForbidden"),
		answerOf(403, "", "X-Appwrite-Waf-Action", "deny"),
		answerOf(403, "", "X-Vercel-Mitigated", "deny"),
		answerOf(403, "", "X-Amzn-Waf-Action", "count"),
		answerOf(403, "", "Accept-Signature", `sig1=("@status");tag="other"`),
		answerOf(404, "<title>Just a moment...</title>"),
		answerOf(404, "<title>404 Not Found</title>", "Server", "cloudflare"),
		answerOf(405, "<title>405 Not Allowed</title>"),
		answerOf(410, ""),
		answerOf(429, "<title>429 Too Many Requests</title>", "Retry-After", "30"),
		answerOf(429, "<title>Access denied | a shop</title>"),
		answerOf(451, "<title>Unavailable For Legal Reasons</title>"),
		answerOf(500, "<title>Just a moment...</title>"),
		answerOf(503, "<title>503 Service Temporarily Unavailable</title>", "Retry-After", "120"),
		answerOf(503, "<title>Down for maintenance</title>"),
		answerOf(503, "<title>DDoS-Guard is how we protect you | news</title>"),
	} {
		if wall := answer.Wall(); wall != (Wall{}) {
			t.Errorf("status %d, %v, %.60q is a wall: %s", answer.Status, answer.Header, answer.Body, wall)
		}
	}
}
