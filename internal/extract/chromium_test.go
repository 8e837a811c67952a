package extract

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The tests of contexts, of XML and of encodings have tables in which a column is what
// Chromium 156.0.8078.108 did on 28 November 2026. With the flag -chromium they ask an
// installed browser again:
//
//	go test ./internal/extract -run 'Chromium' -chromium chromium-headless-shell
var chromiumFlag = flag.String("chromium", "", "browser that is asked whether the recorded columns are right")

// browser is a Chromium without a window. It has no other connections than to a server of the
// test: every name resolves to this server.
type browser struct {
	t        *testing.T
	server   *httptest.Server
	requests *json.Encoder
	mu       sync.Mutex
	calls    int
	answers  map[int]chan message
	events   []message  // since the last call of show
	arrived  *sync.Cond // broadcast after each event
	page     served
	sessions map[bool]string // of a tab with scripting, and of one without
}

// served is the answer of the server for a page.
type served struct{ contentType, body string }

// message is a message of the Chrome DevTools Protocol.
type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

// startBrowser starts the browser of the flag -chromium. Without the flag it skips the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	if *chromiumFlag == "" {
		t.Skip("without -chromium, the recorded columns are not compared with a browser")
	}
	b := &browser{t: t, answers: map[int]chan message{}, sessions: map[bool]string{}}
	b.arrived = sync.NewCond(&b.mu)
	b.server = httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(b.server.Close)
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	input, output, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, *chromiumFlag, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe",
		"--host-resolver-rules=MAP * "+strings.TrimPrefix(b.server.URL, "http://"), "about:blank")
	cmd.ExtraFiles = []*os.File{input, theirs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = input.Close(), theirs.Close()
	b.requests = json.NewEncoder(zeroEnded{output})
	read := make(chan struct{})
	go func() { defer close(read); b.read(ours) }()
	t.Cleanup(func() {
		_ = output.Close()
		cancel()
		_ = cmd.Wait()
		<-read
	})
	return b
}

// zeroEnded ends each message with a NUL instead of a newline.
type zeroEnded struct{ file *os.File }

func (z zeroEnded) Write(p []byte) (int, error) {
	return z.file.Write(append(bytes.TrimSuffix(p, []byte("\n")), 0))
}

func (b *browser) serve(w http.ResponseWriter, r *http.Request) {
	page := served{"text/html", ""}
	if r.URL.Path == "/dir/page.html" {
		b.mu.Lock()
		page = b.page
		b.mu.Unlock()
	}
	w.Header().Set("Content-Type", page.contentType)
	_, _ = w.Write([]byte(page.body))
}

// read reads the messages of the browser until it ends.
func (b *browser) read(from *os.File) {
	defer from.Close()
	in := bufio.NewScanner(from)
	in.Buffer(nil, 64<<20)
	in.Split(func(data []byte, _ bool) (int, []byte, error) {
		if end := bytes.IndexByte(data, 0); end >= 0 {
			return end + 1, data[:end], nil
		}
		return 0, nil, nil
	})
	for in.Scan() {
		var m message
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		b.mu.Lock()
		if answer := b.answers[m.ID]; answer != nil {
			answer <- m
			delete(b.answers, m.ID)
		} else {
			b.events = append(b.events, m)
			b.arrived.Broadcast()
		}
		b.mu.Unlock()
	}
}

// call calls a method of the protocol and decodes its result.
func (b *browser) call(session, method string, params, result any) {
	b.t.Helper()
	encoded, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	b.calls++
	request := message{ID: b.calls, Method: method, Params: encoded, SessionID: session}
	b.answers[request.ID] = answer
	err = b.requests.Encode(request)
	b.mu.Unlock()
	if err != nil {
		b.t.Fatal(err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v in %s", method, err, m.Result)
			}
		}
	case <-time.After(time.Minute):
		b.t.Fatalf("%s: no answer", method)
	}
}

// node is a node of a tree as the protocol describes it.
type node struct {
	NodeID         int
	Children       []node
	ShadowRoots    []node
	ShadowRootType string
}

// shadows returns the ids of the shadow roots below n that the page has made.
func (n *node) shadows() (ids []int) {
	for _, root := range n.ShadowRoots {
		if root.ShadowRootType != "user-agent" {
			ids = append(append(ids, root.NodeID), root.shadows()...)
		}
	}
	for i := range n.Children {
		ids = append(ids, n.Children[i].shadows()...)
	}
	return ids
}

// session returns the session of a tab.
func (b *browser) session(scripting bool) string {
	if s, known := b.sessions[scripting]; known {
		return s
	}
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	s := attached.SessionID
	b.call(s, "Page.enable", map[string]any{}, nil)
	if !scripting {
		b.call(s, "Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	}
	b.sessions[scripting] = s
	return s
}

// show opens a page at pageURL, with http instead of https, and returns what the browser
// reads of it: see the function facts of the script.
func (b *browser) show(page served, scripting bool) string {
	b.t.Helper()
	b.mu.Lock()
	b.page, b.events = page, nil
	b.mu.Unlock()
	s := b.session(scripting)
	b.call(s, "Page.navigate", map[string]any{"url": strings.Replace(pageURL, "https:", "http:", 1)}, nil)
	b.mu.Lock()
	for !slices.ContainsFunc(b.events, func(m message) bool { return m.Method == "Page.loadEventFired" }) {
		b.arrived.Wait()
	}
	b.mu.Unlock()
	var tree struct{ Root node }
	b.call(s, "DOM.getDocument", map[string]any{"depth": -1, "pierce": true}, &tree)
	var objects []map[string]any
	for _, id := range append([]int{tree.Root.NodeID}, tree.Root.shadows()...) {
		var resolved struct{ Object struct{ ObjectID string } }
		b.call(s, "DOM.resolveNode", map[string]any{"nodeId": id}, &resolved)
		objects = append(objects, map[string]any{"objectId": resolved.Object.ObjectID})
	}
	var called struct {
		Result           struct{ Value string }
		ExceptionDetails json.RawMessage
	}
	b.call(s, "Runtime.callFunctionOn", map[string]any{"objectId": objects[0]["objectId"], "functionDeclaration": factsScript,
		"arguments": objects, "returnByValue": true}, &called)
	if called.ExceptionDetails != nil {
		b.t.Fatalf("facts: %s", called.ExceptionDetails)
	}
	facts := called.Result.Value
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, event := range b.events {
		var scheduled struct{ URL string }
		if event.Method == "Page.frameScheduledNavigation" && json.Unmarshal(event.Params, &scheduled) == nil {
			facts += "refresh " + strings.TrimPrefix(scheduled.URL, "http://www.example.org") + "\n"
		}
	}
	return facts
}

// factsScript returns what a document and its shadow trees have, one fact on each line. Links
// are what the pseudo-class :any-link matches; of other elements, those of HTML (and images of
// SVG) count. A canonical link counts in the head only (Document::CanonicalUrlForSharing).
const factsScript = `function(tree, ...shadows) {
	const facts = [], url = u => u.replace(/^http:\/\/www\.example\.org/, '');
	const see = (root, inTree) => {
		for (const e of root.querySelectorAll('*')) {
			if (e.matches(':any-link')) facts.push('a ' + url(e instanceof SVGElement ? new URL(e.href.baseVal, e.baseURI).href : e.href));
			if (e instanceof HTMLFrameElement || e instanceof HTMLIFrameElement && !e.hasAttribute('srcdoc')) facts.push('frame ' + url(e.src));
			if (e instanceof HTMLImageElement && e.src) facts.push('img ' + url(e.src));
			if (e instanceof SVGImageElement && e.href.baseVal) facts.push('img ' + url(new URL(e.href.baseVal, e.baseURI).href));
			if (e instanceof HTMLScriptElement && e.src) facts.push('script ' + url(e.src));
			if (e instanceof HTMLLinkElement && e.rel === 'next') facts.push('link ' + url(e.href));
			if (e instanceof HTMLLinkElement && e.rel === 'canonical' && inTree && e.parentNode === tree.head) facts.push('canonical ' + url(e.href));
			if (e instanceof HTMLMetaElement && e.name === 'robots' && inTree) facts.push('robots ' + e.content);
		}
	};
	see(tree, true);
	for (const s of shadows.slice(0)) if (s !== tree) see(s, false);
	if (tree.title) facts.push('title ' + tree.title);
	if (tree.baseURI !== tree.URL) facts.push('base ' + url(tree.baseURI));
	const lang = tree.documentElement && (tree.documentElement.getAttributeNS('http://www.w3.org/XML/1998/namespace', 'lang') || tree.documentElement.lang);
	if (lang) facts.push('lang ' + lang);
	facts.push('charset ' + tree.characterSet.toLowerCase());
	return facts.join('\n') + '\n';
}`
