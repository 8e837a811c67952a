package dashboard_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/bloomfrontier/crawler/internal/testkit/npm"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// tab is a tab of a browser. It collects what the browser complains about.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

// open starts a browser.
func open(t *testing.T) *tab {
	t.Helper()
	program, err := exec.LookPath("chromium")
	switch {
	case err == nil:
	case os.Getenv("CRAWLER_TEST_SERVERS") == "require":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(profile(t)))
	allocator, endBrowser := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, endTab := chromedp.NewContext(allocator)
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	b := &tab{t: t, ctx: ctx}
	t.Cleanup(func() { cancel(); endTab(); endBrowser() })
	chromedp.ListenTarget(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded: // also reports of the Content-Security-Policy
			if e.Entry.Level != log.LevelVerbose { // advice
				b.complaints = append(b.complaints, e.Entry.Text+" "+e.Entry.URL)
			}
		case *runtime.EventExceptionThrown:
			b.complaints = append(b.complaints, e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			b.complaints = append(b.complaints, fmt.Sprint("console: ", e.Type))
		}
	})
	b.do(log.Enable(), page.Enable())
	return b
}

// profile returns the directory of a browser. Processes of the browser can write to it for a moment after its end.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := os.RemoveAll(dir)
		for begun := time.Now(); err != nil && time.Since(begun) < 20*time.Second; err = os.RemoveAll(dir) {
			time.Sleep(50 * time.Millisecond)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// text returns the text of the first element that a selector matches, and none while the browser goes to another page.
func (b *tab) text(selector string) (text string) {
	b.t.Helper()
	err := chromedp.Run(b.ctx, chromedp.Evaluate(fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector), &text))
	if err != nil && !between(err) {
		b.t.Fatal(err)
	}
	return text
}

// await waits until the text of an element fulfils a condition, and returns the time that took.
func (b *tab) await(selector string, most time.Duration, fulfilled func(string) bool) time.Duration {
	b.t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		text := b.text(selector)
		if fulfilled(text) {
			return time.Since(begun)
		}
		if time.Since(begun) > most {
			b.t.Fatalf("after %v, %s is still %q", most, selector, text)
		}
	}
}

// press clicks on the first element that an XPath selects. The page may replace the element at any moment.
func (b *tab) press(xpath string) chromedp.Action {
	script := fmt.Sprintf(`(() => {
		const found = document.evaluate(%q, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE).singleNodeValue;
		if (!found) return false;
		setTimeout(() => found.click());
		return true;
	})()`, xpath)
	return chromedp.ActionFunc(func(ctx context.Context) error {
		for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			var is bool
			if err := chromedp.Evaluate(script, &is).Do(ctx); err != nil && !between(err) || is {
				return err
			}
			if time.Since(begun) > 10*time.Second {
				return fmt.Errorf("after 10s, the page has no %s", xpath)
			}
		}
	})
}

// between reports whether the browser was between two pages.
func between(err error) bool {
	return strings.Contains(err.Error(), "Cannot find context") || strings.Contains(err.Error(), "target navigated")
}

func has(part string) func(string) bool {
	return func(text string) bool { return strings.Contains(text, part) }
}

// quiet fails the test if the browser has complained.
func (b *tab) quiet(where string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, complaint := range b.complaints {
		b.t.Errorf("%s: %s", where, complaint)
	}
	b.complaints = nil
}

// pages are the pages of a crawl, by the names of their screenshots.
var pages = [][2]string{
	{"home", "/"}, {"overview", "/crawls/web"}, {"hosts", "/crawls/web/hosts"}, {"oldest", "/crawls/web/hosts?view=oldest"},
	{"trouble", "/crawls/web/hosts?view=trouble"}, {"host", "/crawls/web/hosts?host=h1.test"}, {"errors", "/crawls/web/errors"},
	{"filter", "/crawls/web/filter"}, {"workers", "/crawls/web/workers"}, {"relays", "/crawls/web/relays"}, {"pages", "/crawls/web/pages"},
	{"explain", "/crawls/web/explain?url=http://h1.test/"}, {"settings", "/crawls/web/settings"},
	{"field", "/crawls/web/act?do=set&name=delay"}, {"preview", "/crawls/web/act?do=drop-host&host=h1.test"},
}

// views are the windows in which the pages are looked at: widths in pixels of CSS, and the zoom. A window of 1,280 pixels
// that is zoomed to 200 % has 640 pixels of CSS.
var views = []struct {
	name  string
	width int64
	zoom  float64
}{{"1280", 1280, 1}, {"800", 800, 1}, {"360", 360, 1}, {"zoom", 640, 2}}

// TestPages: every page of a crawl of 10,000 hosts is without complaints of the browser, scrolls in one direction only at
// the width of a phone and at a zoom of 200 %, hides no text, and axe finds nothing serious, in light and dark. Screenshots
// in three widths and of the zoom are artifacts of the test.
func TestPages(t *testing.T) {
	b := open(t)
	base, _ := crawl(t, slow...)
	axe, err := os.ReadFile(filepath.Join(npm.Install(t, "testdata/axe"), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(base + "/crawls/web/pages"))
	b.await("#recent", 30*time.Second, has(markup))
	for _, p := range pages {
		for _, v := range views {
			b.do(chromedp.EmulateViewport(v.width, 900, chromedp.EmulateScale(v.zoom)), chromedp.Navigate(base+p[1]), chromedp.WaitReady("main"))
			var over float64
			var cut []string
			var picture []byte
			b.do(chromedp.Evaluate(`document.documentElement.scrollWidth - innerWidth`, &over),
				chromedp.Evaluate(hiddenText, &cut), chromedp.FullScreenshot(&picture, 100))
			if over > 0 || len(cut) > 0 {
				t.Errorf("%s is %g pixels wider than the view %s, and hides %q", p[1], over, v.name, cut)
			}
			if err := os.WriteFile(filepath.Join(t.ArtifactDir(), p[0]+"-"+v.name+".png"), picture, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, scheme := range []string{"light", "dark"} {
			var found string
			b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
				chromedp.Evaluate(string(axe)+";0", nil),
				chromedp.Evaluate(`axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations
					.filter(v => v.impact === "serious" || v.impact === "critical").map(v => [v.id, v.nodes.map(n => n.html)])))`,
					&found, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
			var faults [][]any
			if err := json.Unmarshal([]byte(found), &faults); err != nil || len(faults) > 0 {
				t.Errorf("%s, %s: axe found %v %s", p[1], scheme, err, found)
			}
		}
		b.quiet(p[1])
	}
}

// hiddenText is a script for the texts of elements that do not show all of it and do not scroll.
const hiddenText = `[...document.querySelectorAll("main *, header *")].filter(e => e.childElementCount === 0 && e.textContent.trim() &&
	!e.closest(".hidden, svg, .skip, [hidden], details:not([open])") && ["hidden", "clip"].includes(getComputedStyle(e).overflowX) &&
	(e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1)).map(e => e.textContent)`

// focused is a script for the element that has the focus: its place among all that can have it, and whether a person sees
// the element and that it has the focus.
const focused = `(() => {
	const all = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), textarea, summary, [tabindex='0']")]
		.filter(e => e.checkVisibility());
	const e = document.activeElement, style = getComputedStyle(e), at = e.getBoundingClientRect();
	return {At: all.indexOf(e), Of: all.length, Text: e.innerText || e.id,
		Seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && at.width > 0 && at.right > 0 && at.left < innerWidth && at.bottom > 0 && at.top < innerHeight};
})()`

// TestKeys: with the keys alone a person reaches everything on every page, in its order, and sees where the focus is; pauses
// the crawl; and keeps the focus while the page changes, which then shows what it had held back.
func TestKeys(t *testing.T) {
	b := open(t)
	base, _ := crawl(t, slow...)
	b.do(chromedp.Navigate(base + "/crawls/web/pages"))
	b.await("#recent", 30*time.Second, has(markup))
	type focus struct {
		At, Of int
		Text   string
		Seen   bool
	}
	next := func() (f focus) {
		b.do(chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(focused, &f))
		return f
	}
	for _, p := range pages {
		b.do(chromedp.Navigate(base+p[1]), chromedp.WaitReady("main"), chromedp.Evaluate(`localStorage.setItem("still", "yes")`, nil),
			chromedp.Navigate(base+p[1]), chromedp.WaitReady("main"))
		for i := range 60 { // of the largest pages the first ones
			f := next()
			if f.At != i || !f.Seen {
				t.Errorf("%s: after %d times Tab the focus is on %q, which is number %d of %d, seen: %v", p[1], i+1, f.Text, f.At+1, f.Of, f.Seen)
				break
			}
			if i+1 == f.Of {
				break
			}
		}
	}
	b.do(chromedp.Evaluate(`localStorage.removeItem("still")`, nil), chromedp.Navigate(base+"/crawls/web"))
	b.await("#stream", 20*time.Second, has("live"))
	reach := func(text string) {
		t.Helper()
		for i := 0; ; i++ {
			if f := next(); f.Text == text {
				return
			}
			if i == 100 {
				t.Fatalf("no Tab reaches %q", text)
			}
		}
	}
	reach("Pause")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await(".said", 10*time.Second, has("The crawl is paused."))
	reach("Resume")
	b.do(chromedp.KeyEvent(" "))
	b.await(".said", 10*time.Second, has("The crawl goes on."))

	b.do(chromedp.Navigate(base + "/crawls/web/pages"))
	b.await("#stream", 20*time.Second, has("live"))
	b.do(chromedp.Evaluate(`document.querySelector("#recent a").focus()`, nil))
	was := b.text("#recent")
	time.Sleep(3 * time.Second)
	var f focus
	if b.do(chromedp.Evaluate(focused, &f)); f.At < 0 || b.text("#recent") != was {
		t.Errorf("while a link has the focus, the focus moved (it is on %q) or the part changed", f.Text)
	}
	b.do(chromedp.Evaluate(`document.activeElement.blur()`, nil))
	b.await("#recent", 10*time.Second, func(text string) bool { return text != was })
	b.quiet("the use of the keys")
}

// TestLetters: events that a webhook refused for ever are sent again from the page, by the relay of the crawl that runs.
func TestLetters(t *testing.T) {
	var refuse atomic.Bool
	var mu sync.Mutex
	accepted, refusals := make(map[string]bool), make(map[string]int)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if id := r.Header.Get("Idempotency-Key"); refuse.Load() {
			refusals[id]++
			w.WriteHeader(http.StatusUnprocessableEntity)
		} else {
			accepted[id] = true
		}
	}))
	t.Cleanup(hook.Close)
	refuse.Store(true)
	b := open(t)
	base, _ := crawl(t, append(slow, "--events", hook.URL)...)
	for text := ""; !strings.Contains(text, "The oldest 20 of"); time.Sleep(500 * time.Millisecond) {
		b.do(chromedp.Navigate(base+"/crawls/web/relays?relay=default"), chromedp.WaitReady("#letters", chromedp.ByQuery))
		text = b.text("#letters")
	}
	b.do(b.press(`//form[input[@value="pause"]]/button`))
	b.await(".said", 10*time.Second, has("The crawl is paused."))
	again := func(what string) {
		t.Helper()
		b.do(chromedp.Navigate(base+"/crawls/web/relays?relay=default"), b.press(what))
		b.await("#act", 10*time.Second, has("They arrive after newer events of their hosts."))
		b.do(b.press(`//*[@id="act"]//button`))
		b.await(".said", 10*time.Second, has("The relay sends the dead letters again."))
	}
	until := func(what string, so func() bool) {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			mu.Lock()
			is := so()
			mu.Unlock()
			if is {
				return
			}
			if time.Since(begun) > 20*time.Second {
				t.Fatalf("after 20s, not so: %s", what)
			}
		}
	}
	again(`//*[@id="letters"]//a[starts-with(., "Send again")]`)
	until("the webhook has refused an event twice", func() bool {
		for _, n := range refusals {
			if n > 1 {
				return true
			}
		}
		return false
	})
	refuse.Store(false)
	again(`//*[@id="letters"]//a[starts-with(., "Send these 20 again")]`)
	until("the webhook has accepted 20 events that it had refused", func() bool {
		n := 0
		for id := range accepted {
			if refusals[id] > 0 {
				n++
			}
		}
		return n >= 20
	})
	b.quiet("the dead letters")
}

var largePages = flag.Int("pages", 20_000, "how many pages TestLarge has the crawl fetch before it looks")

// TestLarge: after many pages, every page of the dashboard still comes, and it moves. For a million pages, give -pages 1000000.
func TestLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	base, requests := crawl(t, "--delay", "0")
	for requests.Load() < int64(*largePages) {
		time.Sleep(time.Second)
	}
	b := open(t)
	for _, p := range pages {
		begun := time.Now()
		b.do(chromedp.Navigate(base+p[1]), chromedp.WaitReady("main"))
		t.Logf("%-40s %4d ms at %d requests", p[1], time.Since(begun).Milliseconds(), requests.Load())
		if took := time.Since(begun); took > 10*time.Second { // the crawl takes all of the machine
			t.Errorf("%s took %v", p[1], took)
		}
	}
	b.do(chromedp.Navigate(base + "/crawls/web"))
	b.await("#stream", 20*time.Second, has("live"))
	was := b.text("#now")
	t.Logf("the page changed after %v", b.await("#now", 10*time.Second, func(text string) bool { return text != was }))
	b.quiet("a large crawl")
}

// TestUse: a person sees the crawl move, pauses it, changes the delay of a host after a look at the effect, and asks why a
// URL was crawled.
func TestUse(t *testing.T) {
	b := open(t)
	base, requests := crawl(t, slow...)
	b.do(chromedp.Navigate(base + "/"))
	b.await("#crawls", 10*time.Second, has("web"))
	b.do(b.press(`//*[@id="crawls"]//a`), chromedp.WaitReady("#now", chromedp.ByQuery))
	b.await("#stream", 10*time.Second, has("live"))
	var took time.Duration
	for range 3 { // it is read each second; other programs can make this machine slow
		was := b.text("#now")
		if took = b.await("#now", 20*time.Second, func(text string) bool { return text != was }); took <= 2*time.Second {
			break
		}
	}
	if took > 2*time.Second {
		t.Errorf("the page changed after %v, want 2s at most", took)
	}
	b.await(".charts canvas", 10*time.Second, func(string) bool {
		var n int
		b.do(chromedp.Evaluate(`document.querySelectorAll(".charts canvas").length`, &n))
		return n == 3
	})
	b.do(chromedp.Navigate(base+"/crawls/web/pages"), chromedp.WaitReady("#recent", chromedp.ByQuery))
	b.await("#recent", 10*time.Second, has(markup+" ?[31mred"))
	var images int
	if b.do(chromedp.Evaluate(`document.querySelectorAll("img").length`, &images)); images > 0 {
		t.Errorf("the title of a page became %d images", images)
	}

	b.do(b.press(`//form[input[@value="pause"]]/button`))
	b.await(".said", 10*time.Second, has("The crawl is paused."))
	b.await("#head", 10*time.Second, has("Resume"))
	for begun, n := time.Now(), int64(-1); requests.Load() != n; time.Sleep(time.Second) {
		if n = requests.Load(); time.Since(begun) > 30*time.Second {
			t.Fatal("the crawl was paused, but it still sends requests")
		}
	}

	b.do(chromedp.Navigate(base+"/crawls/web/hosts?host=h1.test"), b.press(`//a[starts-with(., "Delay")]`),
		chromedp.WaitReady("#value", chromedp.ByQuery), chromedp.SetValue("#value", "4s", chromedp.ByQuery),
		chromedp.SetValue("#why", "the owner asked", chromedp.ByQuery), b.press(`//*[@id="act"]//button`))
	b.await("#act", 10*time.Second, has("with one request every 4s. Now they take about"))
	b.do(b.press(`//*[@id="act"]//button`))
	b.await("main", 10*time.Second, has("The delay of h1.test was changed."))
	b.await("#host", 10*time.Second, has("4s (set)"))
	b.do(chromedp.Navigate(base + "/crawls/web/settings"))
	b.await("#versions", 10*time.Second, has("the owner asked"))

	b.do(chromedp.Navigate(base+"/crawls/web/explain"), chromedp.SendKeys("#url", "http://h1.test/"+kb.Enter), chromedp.WaitReady("#verdict", chromedp.ByQuery))
	b.await("#verdict", 10*time.Second, has("http://h1.test/"))
	b.quiet("the use of the pages")
}

// TestLogin: a person logs in with a token, and after the server has forgotten the login the page asks for it again.
func TestLogin(t *testing.T) {
	b := open(t)
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.txt")
	if err := os.WriteFile(tokens, []byte("ann read secret-of-the-reader\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := start(t, `serving .* on (http://127\.0\.0\.1:\d+)/`, "serve", "--root", filepath.Join(dir, "crawls"), "--listen", "127.0.0.1:0", "--tokens", tokens)
	b.do(chromedp.Navigate(base+"/"), chromedp.SendKeys("#secret", "secret-of-the-reader"+kb.Enter), chromedp.WaitVisible("#crawls"))
	b.await("#stream", 10*time.Second, has("live"))
	b.do(chromedp.Evaluate(`document.cookie`, new(string)), b.press(`//button[starts-with(., "Log out")]`), chromedp.WaitVisible("#secret"))
	b.do(chromedp.Navigate(base+"/"), chromedp.WaitVisible("#secret"))
	b.quiet("the login")
}

// TestRedisAway: while Redis does not answer, the page says so, and it recovers.
func TestRedisAway(t *testing.T) {
	b := open(t)
	redis := servers.Redis(t, servers.RedisOptions{})
	base, _ := crawl(t, append(slow, "--redis", redis.URL(), "--name", "web", "--dir", t.TempDir())...)
	b.do(chromedp.Navigate(base + "/crawls/web"))
	b.await("#stream", 20*time.Second, has("live"))
	if err := redis.Pause(); err != nil {
		t.Fatal(err)
	}
	b.await("#head", 30*time.Second, has("Redis has not answered for"))
	if err := redis.Resume(); err != nil {
		t.Fatal(err)
	}
	b.await("#head", 30*time.Second, func(text string) bool { return !strings.Contains(text, "has not answered") })
	b.quiet("the pages of a crawl in Redis")
}
