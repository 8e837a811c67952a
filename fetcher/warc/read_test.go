package warc_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/warc"
)

var _ = flag.Uint64("seed", 0, "replay random tests with this seed") // read by bloomtest.Seed

func dice(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(bloomtest.Seed(t), 5))
}

// dir is the directory of the crawl of a test.
const dir = "crawl"

// kept is a record that was read back.
type kept struct {
	location warc.Location
	field    map[string]string
	block    []byte
}

func (k *kept) kind() string { return k.field["WARC-Type"] }

// read returns all records of the files in their order. It fails the test if a record is
// not whole.
func read(t testing.TB, filesystem vfs.FS, prefix string) (all []kept) {
	t.Helper()
	names, err := filesystem.List(filesystem.PathJoin(dir, warc.Folder))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, ".warc.gz") {
			t.Errorf("unexpected file %s", name)
		}
		file, err := filesystem.Open(filesystem.PathJoin(dir, warc.Folder, name))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(file)
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, records(t, name, text)...)
	}
	return all
}

// records splits a file into its gzip members.
func records(t testing.TB, name string, text []byte) (all []kept) {
	t.Helper()
	for rest := bytes.NewReader(text); rest.Len() > 0; {
		k := kept{location: warc.Location{File: "warc/" + name, Offset: int64(len(text) - rest.Len())}}
		z, err := gzip.NewReader(rest) // rest is an io.ByteReader, so gzip does not read beyond the member
		if err != nil {
			t.Fatalf("record at %+v: %v", k.location, err)
		}
		z.Multistream(false)
		member, err := io.ReadAll(z)
		if err != nil {
			t.Fatalf("record at %+v: %v", k.location, err)
		}
		if k.field, k.block, err = parse(member); err != nil {
			t.Fatalf("record at %+v: %v in %q", k.location, err, member)
		}
		all = append(all, k)
	}
	return all
}

// parse splits a record strictly by the standard.
func parse(member []byte) (field map[string]string, block []byte, err error) {
	in := bufio.NewReader(bytes.NewReader(member))
	version, _ := in.ReadString('\n')
	if version != "WARC/1.1\r\n" {
		return nil, nil, errors.New("no version")
	}
	field = make(map[string]string)
	for {
		line, err := in.ReadString('\n')
		if err != nil || !strings.HasSuffix(line, "\r\n") {
			return nil, nil, fmt.Errorf("header line %q: %w", line, err)
		}
		if line == "\r\n" {
			break
		}
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\r\n"), ": ")
		if _, twice := field[name]; twice || !ok {
			return nil, nil, fmt.Errorf("header line %q", line)
		}
		field[name] = value
	}
	rest, _ := io.ReadAll(in)
	length, err := strconv.Atoi(field["Content-Length"])
	if err != nil || len(rest) != length+4 || string(rest[length:]) != "\r\n\r\n" {
		return nil, nil, fmt.Errorf("%d bytes behind the header, Content-Length %q", len(rest), field["Content-Length"])
	}
	return field, rest[:length], nil
}

// wire returns the n-th request and answer of a test. Some are long.
func wire(n int) *get.Wire {
	body := strings.Repeat(fmt.Sprint("page ", n, " "), 1+n%50)
	if n%11 == 3 {
		noise := make([]byte, 2000)
		r := rand.New(rand.NewPCG(uint64(n), 1))
		for i := range noise {
			noise[i] = byte(r.Uint32())
		}
		body = string(noise)
	}
	return &get.Wire{
		Request:  fmt.Appendf(nil, "GET /%d HTTP/1.1\r\nHost: a.test\r\n\r\n", n),
		Response: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		Remote:   netip.MustParseAddr("192.0.2.1"),
		Started:  time.UnixMilli(1_700_000_000_000 + int64(n)),
	}
}

func url(n int) string { return fmt.Sprintf("http://a.test/%d", n) }

// add packs and appends the n-th answer.
func add(w *warc.Writer, n int) (warc.Location, error) {
	p, err := warc.Pack(url(n), wire(n))
	if err != nil {
		return warc.Location{}, err
	}
	return w.Append(p)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
