package fetcher

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/bloomfrontier/crawler/fetcher/internal/series"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// causeTrap is the cause of items that are dropped because their series is a trap (package series).
const causeTrap = "trap"

// maxSeriesBody is the size from which a page is not read for package series, and says something new.
const maxSeriesBody = 1 << 20

// trapped returns how many of the first pending items end without a request because the series of the first one is
// a trap, and why. Seeds, and pages that a sitemap lists, do not end.
func (h *holding) trapped() (n int, why string) {
	p := h.cfg.Policy()
	h.mu.Lock()
	defer h.mu.Unlock()
	first := ""
	for _, item := range h.pending {
		pattern, trap := h.known.Judge(item.URL)
		if !trap || n > 0 && pattern != first || item.Priority == frontier.PrioritySeed || item.Class == frontier.Listed ||
			frontier.IsCheck(item.URL) || allowsSeries(p, item.URL) {
			break
		}
		first = pattern
		n++
	}
	return n, trapText(first)
}

// trapText says that a URL belongs to a series that is a trap, and which setting allows it.
func trapText(pattern string) string {
	expression := "^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), "#", `[\w-]+`)
	return fmt.Sprintf("a trap: pages of the series %s say nothing new (--allow-series '%s' allows it)", pattern, expression)
}

func allowsSeries(p *policy.Policy, url string) bool {
	for _, re := range p.AllowSeries {
		if re.MatchString(url) {
			return true
		}
	}
	return false
}

// readText reads the text of a page for the series of its URL.
func (v *visited) readText() {
	if frontier.IsCheck(v.item.URL) || allowsSeries(v.rules.policy, v.item.URL) {
		return
	}
	pattern, numbered := series.Pattern(v.item.URL)
	if !numbered {
		return
	}
	v.mu.Lock()
	skips := v.known.Skips(pattern, v.item.URL)
	v.mu.Unlock()
	if skips {
		return
	}
	v.series, v.text = pattern, nil
	if v.isPage && v.answer.IsHTML() && !v.addedEarly && !v.record.MayNeedJS && len(v.answer.Body) <= maxSeriesBody {
		v.text = new(series.Text)
		v.text.Read(v.answer.Body)
	}
}

// noteText notes what the page says for the series of its URL, after it was finished with this outcome. If it says
// nothing new, noteText sets v.silent, and the caller must call noteLinks when the store has answered the links.
func (v *visited) noteText(outcome frontier.Outcome) {
	if outcome != frontier.OK || v.series == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.text == nil {
		v.known.Speak(v.series)
	} else {
		v.silent = !v.known.Text(v.series, v.text)
	}
}

// noteLinks notes the links that a page without a new text has added. A new trap is stored soon. The store gets the
// other changes with the end of the lease: after a crash, the series are as they were before it.
func (v *visited) noteLinks() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known.Links(v.series, v.added) {
		v.changed = true
	}
}

// TrapsOf returns the series of a host that are traps, according to its blob: patterns of URLs with # for each
// number. It returns the latest one last.
func TrapsOf(blob []byte) (patterns []string, err error) {
	host, err := seriesOf(blob)
	if err != nil {
		return nil, err
	}
	return host.Traps(), nil
}

// TrapOf returns why a URL that waits ends without a request, because its series is a trap according to the blob of
// its host. It returns "" if its series is none, or the policy allows it.
func TrapOf(blob []byte, url string, p *policy.Policy) (why string, err error) {
	host, err := seriesOf(blob)
	if err != nil {
		return "", err
	}
	if pattern, trap := host.Judge(url); trap && !allowsSeries(p, url) {
		return trapText(pattern), nil
	}
	return "", nil
}

func seriesOf(blob []byte) (*series.Host, error) {
	host := new(series.Host)
	part, err := originOf(blob, seriesPart)
	if err == nil {
		err = host.UnmarshalBinary(part)
	}
	return host, err
}
