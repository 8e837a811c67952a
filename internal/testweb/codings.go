package testweb

import (
	"bytes"
	"io"
	"net/http"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// codings is a hardship of the test web. It has these kinds of bodies:
//   - bodies in a coding that crawlers usually accept; the server sends this coding even
//     if the request's Accept-Encoding does not name it
//   - bodies in several codings
//   - bodies that are not in the coding that their Content-Encoding names
//   - bodies in unknown codings, which have the outcome coding
var codings = hardship{
	bit: Codings, name: "codings",
	doc: "brotli, zstd and gzip, mislabelled, stacked or damaged, and unknown codings",
	corner: func(c *corners) {
		s := c.site("codings.corner.test")
		s.enter("/")
		page := func(name, coding string, pack func([]byte) []byte) *resource {
			p := s.addListed("/"+name, "/from/"+name).with("Content-Encoding", coding)
			p.packed = func(out io.Writer) error {
				var plain bytes.Buffer
				_ = p.plain(&plain) // writes to a buffer do not fail
				_, err := out.Write(pack(plain.Bytes()))
				return err
			}
			s.pages("/from/" + name)
			return p
		}
		same := func(b []byte) []byte { return b }
		page("gzip", "gzip", gzipOf)
		page("x-gzip", "X-GZip", gzipOf)
		page("brotli", "br", brotliOf)
		page("zstd", "zstd", zstdOf)
		page("members", "gzip", func(b []byte) []byte {
			return append(gzipOf(b[:len(b)/2]), gzipOf(b[len(b)/2:])...)
		})
		page("identity", "identity", same)
		page("listed", "identity, gzip", gzipOf)
		page("not-gzip", "gzip", same)
		page("none", "none", same)
		page("deflate", "deflate", zlibOf)
		page("raw-deflate", "Deflate", deflateOf)
		page("not-brotli", "br", same)
		page("stacked", "gzip, gzip", func(b []byte) []byte { return gzipOf(gzipOf(b)) })
		page("mixed", "br, gzip", func(b []byte) []byte { return gzipOf(brotliOf(b)) })
		page("utf-8", "utf-8", same)
		page("damaged", "gzip", func(b []byte) []byte {
			packed := storedGzip(b)
			return append(packed[:len(packed)-8], "that is no checksum and no length"...)
		})

		leaf := func(name, coding string, pack func([]byte) []byte) {
			p := s.addListed("/"+name).with("Content-Encoding", coding)
			plain := documentOf(p.titleOf(), nil)
			p.packed = func(out io.Writer) error { _, err := out.Write(pack(plain)); return err }
			p.expects("coding", http.StatusOK)
		}
		leaf("compress", "compress", func([]byte) []byte { return []byte("\x1f\x9d\x90no page at all") })
		leaf("unknown", "shrunk", func(b []byte) []byte { return gzipOf(b) })
	},
}

func gzipOf(b []byte) []byte { return gzippedAt(gzip.BestCompression, b) }

// storedGzip returns b as gzip without compression. If the result is damaged, a decoder
// returns all bytes before the damage.
func storedGzip(b []byte) []byte { return gzippedAt(gzip.NoCompression, b) }

func gzippedAt(level int, b []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, level) // the levels are valid
	_, _ = z.Write(b)                        // writes to a buffer do not fail
	_ = z.Close()
	return out.Bytes()
}

func brotliOf(b []byte) []byte {
	var out bytes.Buffer
	z := brotli.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

func zstdOf(b []byte) []byte {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the option is valid
	}
	return z.EncodeAll(b, nil)
}
