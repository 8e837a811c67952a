package get

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/bloomfrontier/crawler/frontier"
)

// packed returns s, compressed with a content coding.
func packed(t testing.TB, coding, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	case "deflate":
		w, _ = flate.NewWriter(&b, flate.DefaultCompression)
	case "br":
		w = brotli.NewWriterOptions(&b, brotli.WriterOptions{Quality: 3, LGWin: 24})
	case "zstd":
		z, err := zstd.NewWriter(&b, zstd.WithWindowSize(maxZstdWindow), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// coded returns the URL of a server that answers with the bytes in *wire and with the
// Content-Encoding coding.
func coded(t testing.TB, coding string, wire *[]byte) string {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header()["Content-Encoding"] = strings.Split(coding, "; ")
		w.Write(*wire)
	})
}

func TestBodiesAreUnpacked(t *testing.T) {
	t.Parallel()
	t.Logf("replay with -seed=%d", *seed)
	random := rand.New(rand.NewPCG(*seed, 8))
	c := client(t, Config{})
	noise := make([]byte, 300_000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	texts := map[string]string{
		"nothing": "", "byte": "x", "page": strings.Repeat("<p>some text, ", 5000), "long": strings.Repeat("<p>some text, ", 500_000), "noise": string(noise),
	}
	for _, coding := range []string{"gzip", "br", "zstd", "deflate"} {
		for name, text := range texts {
			whole := packed(t, coding, text)
			wire := whole
			url := coded(t, coding, &wire)
			for range 2 { // the second time with a reused decoder
				r := mustGet(t, c, Request{URL: url})
				if string(r.Body) != text || r.Truncated || r.Damage != nil || r.WireBytes != int64(len(whole)) {
					t.Errorf("%s, text %q: body of %d bytes, truncated %v, damage %v, %d bytes on the wire",
						coding, name, len(r.Body), r.Truncated, r.Damage, r.WireBytes)
				}
				r.Release()
				if len(text) < 100 {
					continue
				}
				r = mustGet(t, c, Request{URL: url, MaxBody: 100})
				if string(r.Body) != text[:100] || !r.Truncated || r.Damage != nil {
					t.Errorf("%s, text %q, MaxBody 100: body of %d bytes, truncated %v, damage %v",
						coding, name, len(r.Body), r.Truncated, r.Damage)
				}
				r.Release()
				cut := 1 + random.IntN(len(whole)-1)
				wire = whole[:cut]
				r = mustGet(t, c, Request{URL: url})
				if !strings.HasPrefix(text, string(r.Body)) && cut > 4 || r.Cut == nil && cut > 4 {
					t.Errorf("%s, text %q, %d of %d bytes sent: body of %d bytes, cut %v, damage %v",
						coding, name, cut, len(whole), len(r.Body), r.Cut, r.Damage)
				}
				r.Release()
				wire = whole
			}
		}
	}
}

// TestOddCodings checks the values of Content-Encoding that servers send, and bodies that are
// packed otherwise than they say. RFC 9110, 8.4: codings are listed in the order in which they
// were applied, and names are case-insensitive. A plain body is accepted under each name, as
// Chromium accepts it for gzip, deflate and unknown names.
func TestOddCodings(t *testing.T) {
	t.Parallel()
	const text = "<p>some text"
	pack := func(names ...string) string {
		body := text
		for _, name := range names {
			body = string(packed(t, name, body))
		}
		return body
	}
	const binary = "\x00\x01\x02\x03\xff\xfe"
	c := client(t, Config{})
	for _, test := range []struct {
		announced string // header values, with "; " between
		wire      string
		damaged   bool
	}{
		{"", text, false}, {"identity", text, false}, {"GZIP", pack("gzip"), false}, {"x-gzip", pack("gzip"), false},
		{"identity, gzip", pack("gzip"), false}, {" , gzip,", pack("gzip"), false},
		{"deflate", pack("zlib"), false}, {"Deflate", pack("deflate"), false},
		{"gzip, gzip", pack("gzip", "gzip"), false}, {"gzip; br", pack("gzip", "br"), false},
		{"zstd,deflate", pack("zstd", "zlib"), false}, {"deflate, identity; x-GZip", pack("deflate", "gzip"), false},
		{"gzip, gzip, gzip, gzip, gzip", pack("gzip", "gzip", "gzip", "gzip", "gzip"), false},
		{"gzip, gzip", pack("gzip"), false}, // named twice, packed once
		// Plain bodies.
		{"gzip", text, false}, {"deflate", text, false}, {"br", text, false}, {"zstd", text, false}, {"gzip; br", text, false},
		{"utf-8", text, false}, {"none", text, false}, {"compress", text, false},
		// Bodies that are neither plain nor packed as they say.
		{"compress", "\x1f\x9d\x90" + binary, true}, {"x-compress", "\x1f\x9d\x90" + binary, true},
		{"gzip", binary, true}, {"deflate", "\xff" + binary, true}, {"br", "\xff\xff" + binary, true}, {"zstd", binary, true},
		{"unknown", binary, true}, {"gzip, unknown", pack("gzip"), true}, {"deflate", pack("gzip"), true},
		{"gzip", "\x1f\x8b\xff" + binary + binary, true}, {"zstd", "\x28\xb5\x2f\xfd\xff\xff" + binary, true},
		{"br, br", pack("br", "br"), true}, {strings.Repeat("gzip,", 1000), text, true},
	} {
		wire := []byte(test.wire)
		r := mustGet(t, c, Request{URL: coded(t, test.announced, &wire)})
		want := text
		if test.damaged {
			want = ""
		}
		if string(r.Body) != want || errors.Is(r.Damage, ErrCoding) != test.damaged || r.Truncated || r.Cut != nil {
			t.Errorf("Content-Encoding %.40q: body %q, damage %v, cut %v, truncated %v, want %q, damaged %v",
				test.announced, r.Body, r.Damage, r.Cut, r.Truncated, want, test.damaged)
		}
		if outcome, retry := r.Outcome(); (outcome == frontier.Coding) != test.damaged || retry {
			t.Errorf("Content-Encoding %.40q: Outcome() = %v, %v", test.announced, outcome, retry)
		}
		if r.Damage != nil && len(r.Damage.Error()) > 200 {
			t.Errorf("the text of the damage has %d bytes, want at most 200", len(r.Damage.Error()))
		}
		r.Release()
	}
}

// bombs returns bodies that unpack to 32 MiB, announce windows or sizes that are too large, or
// yield no byte.
func bombs(t testing.TB) map[string][]byte {
	zeros := strings.Repeat("\x00", 32<<20)
	const magic = "\x28\xb5\x2f\xfd"
	return map[string][]byte{
		"gzip":      packed(t, "gzip", zeros),
		"br":        packed(t, "br", zeros),
		"deflate":   packed(t, "deflate", zeros),
		"gzip;gzip": packed(t, "gzip", string(packed(t, "gzip", zeros))),
		// The first step yields 32 MiB of members, each of which yields nothing.
		"gzip;deflate":           packed(t, "deflate", strings.Repeat(string(packed(t, "gzip", "")), (32<<20)/23)),
		"zstd":                   packed(t, "zstd", zeros),
		"zstd, window of 3 TiB":  []byte(magic + "\x00\xf8" + strings.Repeat("\x02\x00\x00x", 100)),
		"zstd, window of 16 MiB": []byte(magic + "\x00\x70" + strings.Repeat("\x02\x00\x00x", 100)),
		"zstd, says 2^63 bytes":  []byte(magic + "\xe0\x00\x00\x00\x00\x00\x00\x00\x80" + strings.Repeat("\x02\x00\x00x", 100)),
		"zstd, frames to skip":   bytes.Repeat([]byte("\x50\x2a\x4d\x18\x00\x00\x00\x00"), 1<<17),
		"zstd, empty frames":     bytes.Repeat([]byte(magic+"\x20\x00\x01\x00\x00"), 1<<17),
		"zstd, empty blocks":     append([]byte(magic+"\x00\x58"), bytes.Repeat([]byte("\x00\x00\x00"), 1<<18)...),
		"br, large window":       []byte("\x11\x1e" + strings.Repeat("\x00", 100)),
		"br, metadata":           append([]byte("\x0b"), bytes.Repeat([]byte("\x06"), 1<<20)...),
	}
}

// TestBombs requests ten bombs of each kind at once, with a body limit of 64
// KiB and two bodies unpacked at a time, and measures memory. With -short it
// requests three, which proves less about memory.
func TestBombs(t *testing.T) {
	const limit = 64 << 10
	at := 10
	if testing.Short() {
		at = 3
	}
	for name, bomb := range bombs(t) {
		t.Run(name, func(t *testing.T) {
			coding, _, _ := strings.Cut(name, ",")
			coding = strings.ReplaceAll(coding, ";", ",")
			c := client(t, Config{MaxBodyBytes: limit, Timeout: time.Hour, Transport: answering(0, http.Header{"Content-Encoding": {coding}}, func(context.Context) io.ReadCloser {
				return io.NopCloser(bytes.NewReader(bomb))
			})})
			c.unpackers = make(chan struct{}, 2)
			runtime.GC()
			var most atomic.Uint64
			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			done := make(chan struct{})
			var watch, workers sync.WaitGroup
			watch.Go(func() {
				for {
					var now runtime.MemStats
					runtime.ReadMemStats(&now)
					most.Store(max(most.Load(), now.HeapAlloc))
					select {
					case <-done:
						return
					case <-time.After(5 * time.Millisecond):
					}
				}
			})
			for range at {
				workers.Go(func() {
					r, err := c.Get(t.Context(), Request{URL: "http://h/"})
					if err != nil {
						t.Error(err)
						return
					}
					if strings.Contains(name, "zstd, window") && !errors.Is(r.Damage, zstd.ErrWindowSizeExceeded) {
						t.Errorf("damage %v, want %v", r.Damage, zstd.ErrWindowSizeExceeded)
					}
					if int64(cap(r.Body)) > max(limit, maxPooled) || r.WireBytes > maxPacked(limit) {
						t.Errorf("body in a buffer of %d bytes, %d bytes on the wire", cap(r.Body), r.WireBytes)
					}
					r.Release()
				})
			}
			workers.Wait()
			close(done)
			watch.Wait()
			if grown := int64(most.Load()) - int64(before.HeapAlloc); grown > 100<<20 {
				t.Errorf("the heap grew by %d MiB, want at most 100", grown>>20)
			} else {
				t.Logf("bomb of %d KiB: the heap grew by %d MiB", len(bomb)>>10, grown>>20)
			}
		})
	}
}

// TestMemoryBeforeUnpacking: a body that waits for memory does not occupy a place for
// unpacking, and the memory that it did not need is given back. A small body does not wait
// for the memory of the largest one.
func TestMemoryBeforeUnpacking(t *testing.T) {
	t.Parallel()
	const limit = 4 << 20
	random := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{}).Read(random)
	for name, text := range map[string]string{
		"small": strings.Repeat("<p>some text, ", 1_000), "large": strings.Repeat("<p>some text, ", 100_000),
		"random": string(random), "whole": strings.Repeat("x", limit), "cut": strings.Repeat("x", limit+1),
	} {
		for _, coding := range []string{"br", "zstd"} {
			wire := packed(t, coding, text)
			c := client(t, Config{MaxBodyBytes: limit})
			c.unpackers = make(chan struct{}, 1)
			url := coded(t, coding, &wire)
			var held, most int64
			r := mustGet(t, c, Request{URL: url, Grow: func(ctx context.Context, more int64) error {
				if len(c.unpackers) > 0 && more > 0 {
					t.Errorf("%s, %s: %d bytes wanted by a body that is being unpacked", name, coding, more)
				}
				held += more
				most = max(most, held)
				return nil
			}})
			if want := text[:min(len(text), limit)]; string(r.Body) != want || r.Truncated != (name == "cut") || r.Damage != nil {
				t.Errorf("%s, %s: body of %d bytes, want %d; truncated %t, damage %v", name, coding, len(r.Body), len(want), r.Truncated, r.Damage)
			}
			if largest := map[bool]int64{true: 2 * maxPooled, false: c.MaxHeld(Request{})}[name == "small"]; most > largest {
				t.Errorf("%s, %s: %d bytes held, want at most %d", name, coding, most, largest)
			}
			if least := int64(cap(r.Body)); held < least || held > least+max(maxPooled, 2*int64(len(wire))) {
				t.Errorf("%s, %s: %d bytes held at the end, want %d for the body and few for the data on the wire", name, coding, held, least)
			}
			r.Release()
		}
	}
}

// TestBytesAfterGzip: bytes after the last gzip member are ignored, and further members are
// not.
func TestBytesAfterGzip(t *testing.T) {
	t.Parallel()
	one := packed(t, "gzip", "one")
	for tail, want := range map[string]string{
		"": "one", "\x00\x00\x00": "one", "\n": "one", "<!-- text -->": "one", string(packed(t, "gzip", " two")): "one two",
	} {
		wire := append(bytes.Clone(one), tail...)
		r := mustGet(t, client(t, Config{}), Request{URL: coded(t, "gzip", &wire)})
		if string(r.Body) != want || r.Damage != nil || r.Truncated {
			t.Errorf("followed by %q: body %q, damage %v, want %q", tail, r.Body, r.Damage, want)
		}
		r.Release()
	}
}

// FuzzUnpack: for any body under any coding, unpacking stays within the limit,
// ends, and does not panic.
func FuzzUnpack(f *testing.F) {
	for name, bomb := range bombs(f) {
		coding, _, _ := strings.Cut(name, ",")
		f.Add(coding, bomb[:min(len(bomb), 1000)])
	}
	for _, coding := range []string{"gzip", "br", "zstd"} {
		f.Add(coding, packed(f, coding, "<p>some text, some text"))
	}
	f.Add("gzip, br", []byte("x"))
	var body []byte
	var announced string
	c := client(f, Config{MaxBodyBytes: 4096, Transport: fake(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Encoding": {announced}, "Content-Type": {"text/html"}},
			ContentLength: -1, Body: io.NopCloser(bytes.NewReader(body))}, nil
	})})
	f.Fuzz(func(t *testing.T, coding string, wire []byte) {
		announced, body = coding, wire
		r, err := c.Get(t.Context(), Request{URL: "http://h/"})
		if err != nil {
			t.Fatalf("Content-Encoding %q, body %x: %v", coding, wire, err)
		}
		defer r.Release()
		if len(r.Body) > 4096 || errors.Is(r.Damage, ErrCoding) && len(r.Body) > 0 {
			t.Errorf("Content-Encoding %q, body %x: %d bytes unpacked, truncated %v, damage %v",
				coding, wire, len(r.Body), r.Truncated, r.Damage)
		}
	})
}

func BenchmarkCodings(b *testing.B) {
	text := strings.Repeat("<p>some text, and then <a href=x>a link</a>", 14<<10/43)
	for _, coding := range []string{"gzip", "br", "zstd"} {
		b.Run("coding="+coding, func(b *testing.B) {
			wire := packed(b, coding, text)
			c := client(b, Config{Transport: fake(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Encoding": {coding}, "Content-Type": {"text/html"}},
					ContentLength: -1, Body: io.NopCloser(bytes.NewReader(wire))}, nil
			})})
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				mustGet(b, c, Request{URL: "http://h/"}).Release()
			}
		})
	}
}
