package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// serveControl answers other processes on the directory's socket until ctx
// ends. The store's lock makes sure that there is one such process.
func (ses *session) serveControl(ctx context.Context, w io.Writer) (wait func(), err error) {
	filter, err := ses.filterHandler(ctx, w)
	if err != nil {
		return nil, err
	}
	listener, err := listenPrivately(ctx, ses.dir)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", ses.file(socketFile), err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /seed", ses.handleSeed)
	mux.HandleFunc("POST /retry", ses.handleRetry)
	mux.HandleFunc("GET /status", ses.handleStatus)
	mux.HandleFunc("GET /sample", ses.monitor.handleSample)
	mux.HandleFunc("GET /report", ses.monitor.handleReport)
	mux.HandleFunc("POST /seeds", ses.handleSeeds)
	mux.HandleFunc("POST /pause", ses.handlePause)
	mux.HandleFunc("POST /stop", ses.handleStop)
	mux.HandleFunc("GET /explain", ses.handleExplain)
	mux.HandleFunc("GET /audit", ses.handleAudit)
	mux.HandleFunc("GET /position", ses.handlePosition)
	mux.HandleFunc("GET /filter", filter)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return func() {
		_ = server.Close()
		<-done
		_ = os.Remove(ses.file(socketFile))
	}, nil
}

// listenPrivately listens on the socket in dir, in place of one that a killed
// process left. At no moment can another user connect, whatever the umask and
// every user who may enter dir: the socket is made in a folder that only its owner can
// enter, and gets its place when its mode is set.
func listenPrivately(ctx context.Context, dir string) (net.Listener, error) {
	folder := filepath.Join(dir, socketFile+".new")
	if err := os.RemoveAll(folder); err != nil { // left by a process that was killed
		return nil, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	name, release, err := socketAddress(folder)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", name)
	release()
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // it has another name by then
	made := filepath.Join(folder, socketFile)
	if err = os.Chmod(made, 0o600); err == nil {
		err = os.Rename(made, filepath.Join(dir, socketFile))
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// seedReply is a fetcher.SeedAnswer that travels.
type seedReply struct {
	URL     string          `json:"url,omitempty"`
	Answer  string          `json:"answer"`
	Reason  frontier.Reason `json:"reason,omitempty"`  // why it was refused
	Message string          `json:"message,omitempty"` // the same for people
}

func (ses *session) handleSeed(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Seeds []string `json:"seeds"`
		Check bool     `json:"check"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 64<<20)).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	replies, err := ses.offer(r.Context(), request.Seeds, request.Check)
	reply(w, replies, err)
}

func (ses *session) handleRetry(w http.ResponseWriter, r *http.Request) {
	n, err := ses.store.Retry(r.Context(), r.URL.Query().Get("host"))
	ses.crawl.Wake()
	reply(w, n, err)
}

func (ses *session) handleStatus(w http.ResponseWriter, r *http.Request) {
	stats, err := ses.store.Stats(r.Context())
	progress := ses.crawl.Progress()
	st := status{Running: true, Stats: stats, Progress: &progress}
	if err == nil {
		st.Exact, err = ses.store.exactKeys(r.Context())
	}
	reply(w, st, err)
}

func reply(w http.ResponseWriter, v any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// offer checks and adds seeds; replies go index for index. With check, names
// are looked up first; without, only what needs no look-up is checked.
func (ses *session) offer(ctx context.Context, seeds []string, check bool) ([]seedReply, error) {
	replies := make([]seedReply, len(seeds))
	var good []string
	var at []int
	for i, raw := range seeds {
		if reason, err := ses.checkSeed(ctx, raw, check); err != nil {
			replies[i] = seedReply{Answer: frontier.Refused.String(), Reason: reason, Message: err.Error()}
			continue
		}
		good, at = append(good, raw), append(at, i)
	}
	answers, err := ses.crawl.Seeds(ctx, good)
	if err != nil {
		return nil, err
	}
	for j, a := range answers {
		replies[at[j]] = newSeedReply(a)
	}
	ses.noteRefused(seeds, replies)
	return replies, nil
}

func newSeedReply(a fetcher.SeedAnswer) seedReply {
	r := seedReply{URL: a.URL, Answer: a.Verdict.Answer.String(), Reason: a.Verdict.Reason}
	switch {
	case a.Err != nil:
		r.Message = a.Err.Error()
	case a.Verdict.Answer == frontier.Refused:
		r.Message = fmt.Sprintf("%s: %s", a.URL, a.Verdict.Reason)
	}
	return r
}

// callControl asks the crawl that runs in dir.
func callControl(ctx context.Context, dir, method, path string, body, into any) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialControl(ctx, dir)
		},
	}}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://crawl"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the crawl that runs in %s: %w", dir, errors.Unwrap(err)) // without the URL, which is made up
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		message, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return fmt.Errorf("the running crawl says: %s", bytes.TrimSpace(message))
	}
	return json.NewDecoder(response.Body).Decode(into)
}
