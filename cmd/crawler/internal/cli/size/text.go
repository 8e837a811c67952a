package size

import (
	"fmt"
	"math"
	"strings"

	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

// text returns the report for people.
func (r report) text() string {
	var b strings.Builder
	for _, section := range []func(*strings.Builder){
		r.writeFilter, r.writeFills, r.writeMemory, r.writeWindow, r.writeRedis, r.writeQueue, r.writeRows, r.writeStores, r.writeTime,
	} {
		before := b.Len()
		section(&b)
		if b.Len() > before {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func (r report) writeFilter(b *strings.Builder) {
	f := r.Filter
	fmt.Fprintf(b, "A Bloom filter for %s\n", human.Plural(f.Keys, "URL"))
	facts(b, [][2]string{
		{"bits", fmt.Sprintf("%s (%s)", human.Commas(f.Bits), human.IBytes(f.Bytes))},
		{"hash functions", fmt.Sprint(f.Hashes)},
		{"bits per URL", fmt.Sprintf("%.3f, %.3g times the information bound of %.2f", f.BitsPerURL, f.OverBound, f.InformationBound)},
		{"p when full", fmt.Sprintf("%.3g, %s new URLs is taken for a known one", f.FPR, human.OneIn(f.FPR))},
		{"lost while filling", fmt.Sprintf("%s of the URLs, %s in all", human.OneIn(f.LostShare), human.Few(f.LostKeys))},
	})
}

func (r report) writeFills(b *strings.Builder) {
	b.WriteString("With fewer or more URLs than it is made for\n")
	t := newTable("", "URLs", "p", "lost", "| growing: p", "lost", "layers", "bits")
	for _, f := range r.Fills {
		t.row(
			fmt.Sprintf("%gn", f.Of), human.Commas(f.Fixed.Keys), human.OneIn(f.Fixed.FPR), human.Few(f.Fixed.LostKeys),
			"| "+human.OneIn(f.Growing.FPR), human.Few(f.Growing.LostKeys), f.Growing.Layers, human.IBytes(f.Growing.Bits/8),
		)
	}
	t.writeTo(b, 0)
	one := r.plan.Fill(1)
	fmt.Fprintf(b, "  Growth costs %.2f%% more bits at n, and keeps p for any number of URLs.\n",
		100*(float64(one.Growing.Bits)/float64(one.Fixed.Bits)-1))
}

func (r report) writeMemory(b *strings.Builder) {
	m := r.Memory
	fmt.Fprintf(b, "In memory (one machine), %s\n", r.growth())
	facts(b, [][2]string{
		{"layout", fmt.Sprintf("%d filters of %s bits, k = %d", m.Shards, human.Commas(m.ShardBits), m.Hashes)},
		{"memory", fmt.Sprintf("%s, %.3f bits per URL; an allocation of %s", human.IBytes(m.Bytes), m.BitsPerKey, human.IBytes(m.Allocated))},
	})
}

func (r report) growth() string {
	if r.Growth {
		return "growing: the first layer may use 0.9 of p"
	}
	return "without growth: the one layer may use all of p"
}

func (r report) writeRedis(b *strings.Builder) {
	x := r.Redis
	fmt.Fprintf(b, "In Redis (many machines), %s\n", r.growth())
	facts(b, [][2]string{
		{"blocks", fmt.Sprintf("%s bits, k = %d, %.2f bits per URL as laid out", human.Commas(uint64(x.Segments.BlockBits)),
			x.Segments.Hashes, x.Segments.BitsPerKey)},
		{"partitions", fmt.Sprintf("%s, each made for %s", human.Commas(uint64(x.Partitions)), human.Plural(x.PartitionKeys, "URL"))},
		{"segments", fmt.Sprintf("%d a partition, %s bytes each; an allocation of %s",
			x.Segments.Count, human.Commas(x.Segments.Bytes), human.IBytes(x.Segments.Allocated))},
		{"append-only file", fmt.Sprintf("%.0f bytes per new URL", x.AOFPerURL)},
		{"used_memory", fmt.Sprintf("%s, %.2f bits per URL, if all hosts have equally many", human.IBytes(x.Bytes), x.BitsPerURL)},
		{"p when full", human.OneIn(x.FPR)},
	})
	what := "With the counts of hosts, that is"
	if r.Queue != nil {
		what = "With the queue and the counts of hosts, that is"
	}
	fmt.Fprintf(b, "  %s %s, and while Redis saves or rewrites its file (fork) up to %s more.\n",
		what, human.IBytes(x.UsedMemory), human.IBytes(x.ForkHeadroom))
	b.WriteString("  With hosts of very different sizes, the filter takes two to three times as much.\n")
	blocks := newTable("block", "k", "bits per URL", "AOF per URL")
	for _, block := range x.Blocks {
		blocks.row(human.Commas(uint64(block.Bits))+" bits", block.Hashes,
			fmt.Sprintf("%.2f", block.BitsPerURL), fmt.Sprintf("%.0f B", block.AOFPerURL))
	}
	blocks.writeTo(b, 0)
	fmt.Fprintf(b, "  Where the Bloom module is installed: %s\n", r.Reserve)
}

func (r report) writeQueue(b *strings.Builder) {
	q := r.Queue
	if q == nil {
		return
	}
	fmt.Fprintf(b, "A queue of %s of %d bytes, beside the filter\n", human.Plural(q.URLs, "URL"), r.plan.URLBytes)
	facts(b, [][2]string{
		{"in Redis", human.IBytes(q.Redis) + " of used_memory, when all hosts have equally many"},
		{"embedded store", spanText(q.Disk) + " of disk: logs, and what is not compacted yet"},
		{"exact ones", "and " + spanText(q.Exact) + " of disk in Postgres, if all are"},
	})
}

func (r report) writeRows(b *strings.Builder) {
	if r.Rows == nil {
		return
	}
	fmt.Fprintf(b, "Rows of %s that --recrawl visits again, with URLs of %d bytes\n", human.Plural(r.plan.Filter.Keys, "page"), r.plan.URLBytes)
	facts(b, [][2]string{{"embedded store", fmt.Sprintf("%s of disk, %.0f bytes a page", human.IBytes(r.Rows.Bytes), r.Rows.BytesPerPage)}})
}

func spanText(s sizing.Span) string { return human.IBytes(s.Least) + " to " + human.IBytes(s.Most) }

func (r report) writeStores(b *strings.Builder) {
	fmt.Fprintf(b, "The same URLs (%d bytes each) in exact stores\n", r.plan.URLBytes)
	t := newTable("store", "bytes per URL", "in all", "the filter, times")
	for _, s := range r.Stores {
		name := s.Name
		if s.OnDisk {
			name += " (disk)"
		}
		t.row(name, fmt.Sprintf("%.0f", s.BytesPerKey), human.IBytes(uint64(math.Round(s.Bytes))),
			fmt.Sprintf("%.3g", s.Times))
	}
	t.writeTo(b, 0)
}

func (r report) writeTime(b *strings.Builder) {
	x, domain := r.Time, settings.Default().DomainRate
	host := 1 / max(r.plan.Delay, r.plan.Latency).Seconds()
	fmt.Fprintf(b, "Crawled politely, %s, %s at once\n", human.Plural(x.Hosts, "host"), human.Commas(x.HostsAtOnce))
	facts(b, [][2]string{
		{"rate", fmt.Sprintf("%.4g pages/s", x.PagesPerSecond)},
		{"hosts of equal size", "at least " + days(x.Even)},
		{"one host", fmt.Sprintf("at most %s pages a day", human.Few(86_400*host))},
		{"one domain", fmt.Sprintf("at most %s with --domain-rate %g, which is the default", human.Few(86_400*max(host, domain)), domain)},
	})
}

// facts prints names and values in two columns.
func facts(b *strings.Builder, pairs [][2]string) {
	for _, pair := range pairs {
		fmt.Fprintf(b, "  %-20s %s\n", pair[0], pair[1])
	}
}

// table is a table. Its first row is the header.
type table [][]string

func newTable(header ...string) *table { return &table{header} }

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	*t = append(*t, row)
}

// writeTo writes the table, indented. The columns in left are aligned on the left (human.Columns).
func (t *table) writeTo(b *strings.Builder, left ...int) {
	for _, line := range human.Columns(*t, left...) {
		fmt.Fprintf(b, "  %s\n", line)
	}
}
