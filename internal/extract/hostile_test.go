package extract

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/budget"
	"github.com/bloomfrontier/crawler/internal/suite"
)

var proof = flag.Bool("proof", false, "hostile pages at full size")

// hostile has functions that make pages of a given size. These pages are hard to read.
var hostile = []struct {
	name string
	page func(dice *rand.Rand, size int) []byte
}{
	{"deep", repeat("<div>")},
	{"deep links", repeat("<a href=x><div>")},
	{"deep drawing", repeat("<svg><g><math>")},
	{"deep tables", repeat("<table><tr><td>")},
	{"deep templates", repeat("<template>")},
	{"deep lists", repeat("<select><option><optgroup>")},
	{"formatting", func(_ *rand.Rand, size int) []byte {
		var b bytes.Buffer
		b.WriteString("<p>")
		for i := 0; b.Len() < size/4 && i < 400; i++ {
			fmt.Fprintf(&b, "<b id=%d>", i)
		}
		return append(b.Bytes(), strings.Repeat("<p>x", (size-b.Len())/4)...)
	}},
	{"formatting, closed", repeat("<p><b><i><u><a></p></b></u>x")},
	{"one tag", counted("<a href=x ", "a%d=%d ", ">")},
	{"many bodies", counted("", "<body a%d=%d>", "")},
	{"texts", repeat("x</z>")},
	{"texts in a table", repeat("<table>x<tr>x")},
	{"giant attribute", func(_ *rand.Rand, size int) []byte {
		return []byte(`<a href="` + strings.Repeat("x", size) + `"><a href=y>`)
	}},
	{"long base", counted("<base href='/"+strings.Repeat("x", 8000)+"/'>", "<a href=%d-%d>", "")},
	{"long base with a query", counted("<base href='/"+strings.Repeat("ä", 1200)+"/'>", "<a href='%d?ü=%d'>", "")},
	{"sources", counted("<img srcset='", "%d.png %dx, ", "'>")},
	{"unclosed tags", repeat("<a href=")},
	{"unclosed comment", repeat("<!-- <a href=x> ")},
	{"unclosed script", repeat("<script><!-- <script>")},
	{"only <", repeat("<")},
	{"comments", repeat("<!-->")},
	{"instructions", repeat("<?x>")},
	{"NUL", repeat("\x00<\x00a href=\x00>")},
	{"invalid UTF-8", repeat("<a href='\xff\xfe\xc0\x80?\xed\xa0\x80'>")},
	{"entities", repeat("&amp;&notit;&#x10ffff;&#0;&;&lt")},
	{"entities in attributes", repeat("<a href='&amp;&notin&#x41'>")},
	{"titles", repeat("<title>x</title><svg><title>")},
	{"metas", repeat("<meta name=robots content='none,none'><meta http-equiv=refresh content='0;url=x'>")},
	{"many links", counted("", "<a href=%d/%d>", "")},
	{"plain text", repeat("<plaintext><a href=x>")},
	{"framesets", repeat("<frameset><frame src=x>")},
	{"UTF-16", func(_ *rand.Rand, size int) []byte {
		return append([]byte("\xff\xfe"), bytes.Repeat([]byte("<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00\xac\x20>\x00"), size/20)...)
	}},
	{"shifts", repeat("<meta charset=iso-2022-jp>\x1b$B\x1b(B\x1b$@<a href='?\x1b$BF|'>")},
	{"windows-1251", repeat("<meta charset=windows-1251><a href='?\xe4\xe0'>\xe4\xe0\xe4\xe0")},
	{"noise", func(dice *rand.Rand, size int) []byte {
		const of = "<>/=\"' \n!-&;#abhrefsvgtdp\x00\xff"
		b := make([]byte, size)
		for i := range b {
			b[i] = of[dice.IntN(len(of))]
		}
		return b
	}},
}

// repeat makes pages of one repeated text.
func repeat(text string) func(*rand.Rand, int) []byte {
	return func(_ *rand.Rand, size int) []byte { return bytes.Repeat([]byte(text), 1+size/len(text)) }
}

// counted makes pages of a text that is repeated with another number each time. The text must
// contain the number twice.
func counted(begin, text, end string) func(*rand.Rand, int) []byte {
	return func(_ *rand.Rand, size int) []byte {
		b := bytes.NewBufferString(begin)
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(b, text, i, i)
		}
		return append(b.Bytes(), end...)
	}
}

// TestHostilePagesAtOnce reads 1,000 pages at once, with the limits of a worker: one
// budget for bodies and documents, as many pages at a time as there are processors, and
// one second for each document. Every page must be read soon, and the process must stay
// small. Each page gets its document, too, where that is allowed.
func TestHostilePagesAtOnce(t *testing.T) {
	t.Logf("replay with -seed=%d", *seedFlag)
	const largestBody, patience = 10 << 20, 8 * time.Minute
	pages, size, race := 1000, 8<<10, raceDetector()
	switch {
	case *proof:
		size = 256 << 10
	case race: // makes the test ten times as slow and the process twice as large
		pages = 200
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(400 << 20))
	bytes := budget.New(256<<20, largestBody+MaxDocumentMemory)
	reading := make(chan struct{}, runtime.GOMAXPROCS(0))
	base, canon := testURL(t, pageURL), testCanon(t)
	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		highest uint64
		lacks   = map[Lack]int{}
		began   = time.Now()
	)
	one := func(i int) {
		kind := hostile[i%len(hostile)]
		dice := rand.New(rand.NewPCG(*seedFlag, uint64(i)))
		n := size/4 + dice.IntN(2*size)
		if i%50 == 0 && !race {
			n = min(40*n, largestBody-largestBody/8)
		}
		share, err := bytes.Take(t.Context(), int64(n))
		if err != nil {
			t.Error(err)
			return
		}
		defer share.Release()
		body := kind.page(dice, n)
		if more := int64(len(body) - n); more > 0 {
			if err := share.Grow(t.Context(), more); err != nil {
				t.Error(err)
				return
			}
		}
		reading <- struct{}{}
		start := time.Now()
		page := HTML(body, "", base, Options{
			Canon: canon, Assets: true, Room: share.TryGrow,
			GiveUp: func() bool { return time.Since(start) > time.Second },
		})
		page.Document()
		<-reading
		resident := residentBytes()
		mu.Lock()
		defer mu.Unlock()
		highest = max(highest, resident)
		switch {
		case len(page.Links) > DefaultMaxLinks:
			t.Errorf("%s, %d bytes: %d links, want at most %d", kind.name, len(body), len(page.Links), DefaultMaxLinks)
		default:
			lacks[page.Lack]++
		}
	}
	for i := range pages {
		all.Go(func() { one(i) })
	}
	all.Wait()
	t.Logf("%d pages in %v, at most %d MiB resident, lacks %v", pages, time.Since(began), highest>>20, lacks)
	if took := time.Since(began); suite.TooLong(took, patience) {
		t.Errorf("all pages took %v, want at most %v", took, patience)
	}
	if highest > 600e6 && !race {
		t.Errorf("%d MB resident, want at most 600", highest/1e6)
	}
	if lacks[TooDeep] == 0 || lacks[TooHeavy] == 0 || lacks[LacksNothing] == 0 {
		t.Errorf("lacks %v, want pages that are TooDeep, TooHeavy, and without a lack", lacks)
	}
}

// residentBytes returns the memory of the process, or 0 if that is unknown.
func residentBytes() uint64 {
	file, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident uint64
	if _, err := fmt.Sscan(string(file), &size, &resident); err != nil {
		return 0
	}
	return resident * uint64(os.Getpagesize())
}

// raceDetector reports whether the test was built with -race. The race detector needs
// additional memory.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if ok && s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
}
