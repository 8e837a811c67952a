package testweb

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"net/http"
	"time"

	"github.com/klauspost/compress/flate"
)

// Mix is the make-up of a web: how its sizes, links, failures and so on are distributed.
type Mix string

// MixWeb is a web like the one that a broad crawl meets. The figures are those of a crawler written in Go, with a Bloom
// filter, on five machines of four cores, during half an hour of the open web in March 2026, as a screenshot of its
// statistics shows them. What the screenshot does not show is marked as assumed.
//
//	bodies                p50 66 kB, p95 407 kB, p99 846 kB, gzip    log-normal, mixBytes, mixBytesSpread
//	links of a page       p50 39, p95 281, p99 699                   log-normal, mixLinks, mixLinksSpread
//	found URLs            34 % new                                   mixBranch new links on each page
//	time to answer        p50 1.86 s, p95 4.5 s                      log-normal, MixLatency, MixLatencySpread
//	new URLs              a quarter refused by robots.txt            mixFates
//	requests              19 % fail; 0.39 redirects a page           mixFates; how they fail is assumed
//	transport             nearly all TLS                             Config.TLS; half of the hosts resume sessions (assumed)
//
// Config.TLS, Latency and LatencySpread are not set by a Mix. The web has Config.Hosts hosts of some ten thousand pages
// each, of which a crawl of limited time sees the beginning.
const MixWeb Mix = "web"

const (
	mixBytes       = 66_000
	mixBytesSpread = 1.10 // ln(407/66) / 1.645 and ln(846/66) / 2.326
	mixLinks       = 39
	mixLinksSpread = 1.22 // ln(281/39) / 1.645 and ln(699/39) / 2.326
	mixMostLinks   = 4000
	mixBranch      = 28 // new links on a page; of the mean of 82 links

	// MixLatency and MixLatencySpread are Config.Latency and LatencySpread of MixWeb: the mean of a log-normal
	// distribution is its median times exp(spread²/2).
	MixLatency       = 2150 * time.Millisecond
	MixLatencySpread = 0.537 // ln(4.5/1.86) / 1.645
)

// mixFates are the fates of found URLs, out of 1024. Of the URLs that are requested, 61 % are pages, 24 % redirects, 13 %
// client errors, and 1.7 % fail in each of four attempts.
var mixFates = []leaf{
	{262, fateRobots},
	{184, moved},
	{84, refused(http.StatusNotFound)},
	{16, refused(http.StatusForbidden)},
	{6, refused(http.StatusGone)},
	{7, unwell(http.StatusServiceUnavailable)},
	{3, unwell(http.StatusInternalServerError)},
	{2, &fate{name: "reset for ever", outcome: "network", fails: forever,
		answer: func(_ *Web, _ page, _ int, a *answer) { a.cut, a.status = cutReset, 0 }}},
	{1, &fate{name: "silent for ever", outcome: "network", fails: forever,
		answer: func(_ *Web, _ page, _ int, a *answer) { a.wait, a.cut, a.status = time.Minute, cutClose, 0 }}},
}

func unwell(status int) *fate {
	return &fate{name: "5xx for ever", outcome: "server_error", status: status, fails: forever,
		answer: func(_ *Web, _ page, _ int, a *answer) { a.refuse(status) }}
}

// moved is the fate of a page that redirects to one of its child pages or, one time in three, to a known page.
var moved = &fate{name: "moved", outcome: "redirect", status: http.StatusMovedPermanently, answer: func(w *Web, p page, _ int, a *answer) {
	a.status, a.body, a.location = http.StatusMovedPermanently, nil, w.url(target{kind: aPage, page: w.movedTo(p)})
}}

func (w *Web) movedTo(p page) page {
	d := w.roll(forChain, p)
	child := page{p.host, mixBranch*p.index + 1 + d.intn(mixBranch)}
	if d.oneIn(3) || child.index >= w.shape.size(p.host) {
		return w.known(&d, p)
	}
	return child
}

// known returns a page that a crawl finds early: near the root of p's host, or the root page of one of the first hosts.
func (w *Web) known(d *dice, p page) page {
	if d.intn(4) == 0 {
		u := d.unit()
		return page{int(u * u * float64(min(w.shape.hosts(), 1000))), 0}
	}
	u := d.unit()
	return page{p.host, int(u * u * float64(min(w.shape.size(p.host), mixBranch+1)))}
}

// isMix reports whether the web has a Mix.
func (w *Web) isMix() bool { return w.cfg.Mix != "" }

// mixLinksOf appends the links of p: to its child pages, and to known pages.
func (w *Web) mixLinksOf(dst []target, p page) []target {
	d := w.roll(forLinks, p)
	many := int(min(mixLinks*math.Exp(mixLinksSpread*d.gauss()), mixMostLinks))
	for len(dst) < many {
		dst = append(dst, target{kind: aPage, page: w.known(&d, p)})
	}
	return dst
}

// mixFateOf returns the fate of p. The root pages of the first hosts, which are seeds, are pages, and robots.txt disallows
// no root page.
func (w *Web) mixFateOf(p page) *fate {
	f := w.fates.leaves[w.draw(forFate, p)%uint64(len(w.fates.leaves))]
	if f == nil || p.index == 0 && (p.host < seedHosts || f == fateRobots) {
		return plain
	}
	return f
}

// eachReachable calls visit for every page of a Mix that a crawl finds, until visit returns false. It takes memory for each.
func (w *Web) eachReachable(visit func(target) bool) {
	queue := []page{{0, 0}}
	seen := map[page]bool{queue[0]: true}
	find := func(p page) {
		if !seen[p] {
			seen[p] = true
			queue = append(queue, p)
		}
	}
	for host := range min(seedHosts, w.shape.hosts()) {
		find(page{host, 0})
	}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if !visit(target{kind: aPage, page: p}) {
			return
		}
		switch f := w.fateOf(p); {
		case f == moved:
			find(w.movedTo(p))
		case f.hasLinks():
			for _, to := range w.links(nil, p) {
				find(to.page)
			}
		}
	}
}

// blockBytes is the size of a prepared piece of a page, before compression, and blockCount the number of them.
const blockBytes, blockCount = 4 << 10, 64

// A block is a piece of HTML. All pieces have the same size, so that the checksum of a page can be computed from theirs.
type block struct {
	plain  []byte
	packed []byte // deflate blocks that refer to nothing before them, and end on a byte; not the last of a stream
	sum    uint32 // CRC-32 of plain
}

// blocks are the prepared pieces of a web's pages. Pages are put together from them, because compressing each page would
// take more time than crawling it.
type blocks struct {
	all   [blockCount]block
	shift [4][256]uint32 // the effect of blockBytes zero bytes on a CRC-32, for each value of each of its bytes
}

func newBlocks(c *corpus, seed uint64) (*blocks, error) {
	b := new(blocks)
	d := dice{mix(seed ^ 0x626c6f636b73)}
	for i := range b.all {
		text := make([]byte, 0, 2*blockBytes)
		for n := 0; len(text) < blockBytes; n++ {
			text = fmt.Appendf(text, "<div class=\"row row-%d\" data-n=\"%d\"><span class=\"label\"><b>%s</b></span>\n", n%7, d.intn(1e6), nouns[d.intn(len(nouns))])
			text = append(c.appendParagraph(text, &d), "</div>\n"...)
		}
		text = text[:bytes.LastIndex(text[:blockBytes-8], []byte("<"))] // no tag and no word is cut
		for len(text) < blockBytes {
			text = append(text, '\n')
		}
		var packed bytes.Buffer
		z, err := flate.NewWriter(&packed, flate.DefaultCompression)
		if err == nil {
			_, err = z.Write(text)
		}
		if err == nil {
			err = z.Flush()
		}
		if err != nil {
			return nil, fmt.Errorf("testweb: prepare pages: %w", err)
		}
		b.all[i] = block{text, packed.Bytes(), crc32.ChecksumIEEE(text)}
	}
	var bits [32]uint32
	for i := range bits {
		v := uint32(1) << i
		for range 8 * blockBytes {
			v = v>>1 ^ crc32.IEEE&-(v&1)
		}
		bits[i] = v
	}
	for at := range b.shift {
		for value := range 256 {
			for bit := range 8 {
				if value>>bit&1 == 1 {
					b.shift[at][value] ^= bits[8*at+bit]
				}
			}
		}
	}
	return b, nil
}

// append returns the CRC-32 of a text with the CRC-32 sum, followed by a block.
func (b *blocks) append(sum uint32, next *block) uint32 {
	return b.shift[0][sum&0xff] ^ b.shift[1][sum>>8&0xff] ^ b.shift[2][sum>>16&0xff] ^ b.shift[3][sum>>24] ^ next.sum
}

const pageEnd = "</body>\n</html>\n"

// mixBlocks calls visit for the blocks of p's page, whose head has the given length.
func (w *Web) mixBlocks(p page, head int, visit func(*block)) {
	d := w.roll(forText, p)
	for size := w.sizeOf(p) - head; size > 0; size -= blockBytes {
		visit(&w.blocks.all[d.intn(blockCount)])
	}
}

// appendMixPage appends p's HTML: the head with all links, blocks, and the end.
func (w *Web) appendMixPage(dst []byte, p page) []byte {
	start := len(dst)
	dst = bytes.TrimSuffix(w.appendSized(dst, p, 0), []byte(pageEnd))
	w.mixBlocks(p, len(dst)-start, func(b *block) { dst = append(dst, b.plain...) })
	return append(dst, pageEnd...)
}

// appendPacked appends the same as gzip: the head and the end as they are, and the prepared blocks.
func (w *Web) appendPacked(dst []byte, p page) []byte {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	head := bytes.TrimSuffix(w.appendSized((*buffer)[:0], p, 0), []byte(pageEnd))
	*buffer = head[:0]
	sum, size := crc32.ChecksumIEEE(head), len(head)+len(pageEnd)
	dst = append(dst, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"...)
	for len(head) > 0 {
		n := min(len(head), math.MaxUint16)
		dst = appendStored(dst, head[:n], 0)
		head = head[n:]
	}
	w.mixBlocks(p, size-len(pageEnd), func(b *block) {
		dst, sum, size = append(dst, b.packed...), w.blocks.append(sum, b), size+blockBytes
	})
	dst = appendStored(dst, []byte(pageEnd), 1)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Update(sum, crc32.IEEETable, []byte(pageEnd)))
	return binary.LittleEndian.AppendUint32(dst, uint32(size))
}

// appendStored appends a stored block of deflate (RFC 1951, 3.2.4). last is 1 for the last of a stream.
func appendStored(dst, text []byte, last byte) []byte {
	dst = append(dst, last)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(text)))
	dst = binary.LittleEndian.AppendUint16(dst, ^uint16(len(text)))
	return append(dst, text...)
}
