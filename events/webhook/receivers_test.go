package webhook_test

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/events/webhook"
	"github.com/bloomfrontier/crawler/internal/testkit/npm"
)

// TestReceivers sends events to the receivers of the guide, which use Express 5.3.0, Fastify 5.12.8 and the library of
// Standard Webhooks 1.1.1, and to one with Express's own parser.
func TestReceivers(t *testing.T) {
	t.Parallel()
	dir := npm.Install(t, filepath.Join("testdata", "receivers"))
	guide, err := os.ReadFile("../../docs/guide/events.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"express.js", "fastify.js"} {
		program, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(guide), "```js\n"+string(program)+"```\n") {
			t.Errorf("the guide does not have the program %s, %v", name, err)
		}
	}
	other := []byte("another secret of thirty-two ...")
	for _, tc := range []struct {
		name, program string
		config        webhook.Config
		stored        string // "": the id of each event
		refused       bool
	}{
		{"express", "express.js", webhook.Config{Secrets: [][]byte{secret}}, "", false},
		{"express, while the secret changes", "express.js", webhook.Config{Secrets: [][]byte{other, secret}}, "", false},
		{"express, another secret", "express.js", webhook.Config{Secrets: [][]byte{other}}, "", true},
		{"fastify", "fastify.js", webhook.Config{Secrets: [][]byte{secret}}, "", false},
		{"fastify, JSON", "fastify.js", webhook.Config{Secrets: [][]byte{secret}, ContentType: "application/json"}, "", false},
		{"fastify, another secret", "fastify.js", webhook.Config{Secrets: [][]byte{other}}, "", true},
		// Express leaves a body of a type that it does not parse undefined, and says nothing.
		{"express's parser", "parsers.js", webhook.Config{}, "undefined", false},
		{"express's parser, JSON", "parsers.js", webhook.Config{ContentType: "application/json"}, "", false},
		{"express's parser, binary", "parsers.js", webhook.Config{Binary: true}, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			address, stored := startReceiver(t, dir, tc.program)
			tc.config.URL = "http://" + address + "/events"
			sink, err := webhook.New(tc.config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = sink.Close() })
			batch := make([]events.Event, 20)
			var want []string
			for i := range batch {
				batch[i] = eventstest.Event(i, 4)
				want = append(want, batch[i].ID)
				if tc.stored != "" {
					want[i] = tc.stored
				}
			}
			for i, err := range sink.Send(t.Context(), batch) {
				if (err != nil) != tc.refused {
					t.Errorf("event %d: %v, want refused %v", i, err, tc.refused)
				}
			}
			if tc.refused {
				want = nil
			}
			text, err := os.ReadFile(stored)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			got := strings.Fields(string(text))
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("stored %q, want %q", got, want)
			}
		})
	}
}

// startReceiver starts a receiver on a free port. It returns its address and the file to which it appends ids.
func startReceiver(t *testing.T, dir, program string) (address, stored string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, stored = free.Addr().String(), filepath.Join(t.TempDir(), "stored")
	_, port, _ := net.SplitHostPort(address)
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	said := new(strings.Builder)
	node := exec.Command("node", program)
	node.Dir, node.Stdout, node.Stderr = dir, said, said
	node.Env = append(os.Environ(), "PORT="+port, "STORED="+stored, "SECRET=whsec_"+base64.StdEncoding.EncodeToString(secret))
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Wait() }()
	t.Cleanup(func() { _ = node.Process.Kill() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return address, stored
		}
		select {
		case err := <-ended:
			t.Fatal(fmt.Errorf("%s: %w\n%s", program, err, said))
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen within a minute: %v", program, err)
		}
	}
}
