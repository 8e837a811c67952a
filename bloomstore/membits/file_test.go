package membits

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
)

var tag = [16]byte([]byte("the crawl's name"))

// small and tiny are configs of filters whose files are short, even with four layers.
var (
	small = Config{Capacity: 30, FPR: 1e-3, Shards: 4}
	tiny  = Config{Capacity: 2, FPR: 1e-2, Shards: 2}
)

// fourLayers returns a filter with four layers, three of which are full.
func fourLayers(t testing.TB, config Config) *Filter {
	rng := rand.New(rand.NewPCG(1, 0))
	f := open(t, config)
	for len(*f.chain.Load()) < 4 {
		f.Add(randomPrint(rng))
	}
	return f
}

// journal is a journal of the results of Add, as a store writes it.
type journal []struct {
	number int
	fp     bloomstore.Fingerprint
}

func (j *journal) add(f *Filter, fp bloomstore.Fingerprint) {
	if number, added := f.Add(fp); added {
		*j = append(*j, struct {
			number int
			fp     bloomstore.Fingerprint
		}{number, fp})
	}
}

func (j journal) replay(t *testing.T, f *Filter) {
	t.Helper()
	for _, entry := range j {
		if err := f.Restore(entry.number, []bloomstore.Fingerprint{entry.fp}); err != nil {
			t.Fatal(err)
		}
	}
}

func reread(t *testing.T, file []byte, config Config) *Filter {
	t.Helper()
	f, err := Read(bytes.NewReader(file), config, tag)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestReadReturnsWhatWasWritten(t *testing.T) {
	for _, config := range []Config{small, {Capacity: 5000}, {Capacity: 1, Shards: 1, Growth: GrowthOff}} {
		rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
		f := open(t, config)
		prints := make([]bloomstore.Fingerprint, 500)
		for i := range prints {
			prints[i] = randomPrint(rng)
			f.Add(prints[i])
		}
		file := saved(t, f, tag)
		g := reread(t, file, config)
		if !bytes.Equal(saved(t, g, tag), file) {
			t.Errorf("%+v: a filter that was read from a file writes another file", config)
		}
		if i := slices.IndexFunc(prints, func(fp bloomstore.Fingerprint) bool { return !g.Has(fp) }); i >= 0 {
			t.Errorf("%+v: after writing and reading, Has of key %d is false", config, i)
		}
		if g.Stats().Keys != f.Stats().Keys {
			t.Errorf("%+v: after writing and reading the filter has %d keys, want %d", config, g.Stats().Keys, f.Stats().Keys)
		}
	}
}

// TestRestoreFromEmpty restores a filter from the journal of all calls of Add, without a
// snapshot. The restored filter must have the same file.
func TestRestoreFromEmpty(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	f, since := open(t, small), journal{}
	for range 1000 {
		since.add(f, randomPrint(rng))
	}
	g := open(t, small)
	since.replay(t, g)
	if !bytes.Equal(saved(t, g, tag), saved(t, f, tag)) {
		t.Error("Restore of all added keys did not make the same filter")
	}
}

// addingWriter adds keys to a filter between the parts that are written. If WriteTo held
// a lock meanwhile, Add would never return.
type addingWriter struct {
	bytes.Buffer
	add func()
}

func (w *addingWriter) Write(part []byte) (int, error) {
	w.add()
	return w.Buffer.Write(part)
}

// TestSnapshotBetweenAdds writes a file while keys are added. The file and the journal
// since Snapshot must restore the current filter, even if layers began meanwhile.
func TestSnapshotBetweenAdds(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	for _, before := range []int{0, 29, 30, 31, 90, 500} {
		f, since := open(t, small), journal{}
		for range before {
			f.Add(randomPrint(rng))
		}
		snapshot, keys := f.Snapshot(tag), f.Stats().Keys
		file := addingWriter{add: func() {
			for range 20 {
				since.add(f, randomPrint(rng))
			}
		}}
		if _, err := snapshot.WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		file.add()
		g := reread(t, file.Bytes(), small)
		if g.Stats().Keys != keys {
			t.Errorf("snapshot after %d adds: the file has %d keys, want %d", before, g.Stats().Keys, keys)
		}
		since.replay(t, g)
		if !bytes.Equal(saved(t, g, tag), saved(t, f, tag)) {
			t.Errorf("snapshot after %d adds: the file and the journal do not make the same filter", before)
		}
	}
}

// TestSnapshotDuringAdds does the same as TestSnapshotBetweenAdds with a writer in
// another goroutine, for the race detector.
func TestSnapshotDuringAdds(t *testing.T) {
	config := Config{Capacity: 5000}
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	f, since := open(t, config), journal{}
	for range 4000 {
		f.Add(randomPrint(rng))
	}
	snapshot := f.Snapshot(tag)
	var file bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := snapshot.WriteTo(&file); err != nil {
			t.Error(err)
		}
		f.Stats()
	})
	for range 30_000 {
		since.add(f, randomPrint(rng))
	}
	wg.Wait()
	g := reread(t, file.Bytes(), config)
	since.replay(t, g)
	if !bytes.Equal(saved(t, g, tag), saved(t, f, tag)) {
		t.Error("the file and the journal do not make the same filter")
	}
}

func TestRestoreRefusesStrangeLayers(t *testing.T) {
	one := make([]bloomstore.Fingerprint, 1)
	for _, c := range []struct {
		growth Growth
		number int
		sound  bool
	}{
		{GrowthOn, 0, true}, {GrowthOn, 1, true}, {GrowthOn, 2, false}, {GrowthOn, -1, false},
		{GrowthOff, 0, true}, {GrowthOff, 1, false},
	} {
		f := open(t, Config{Capacity: 10, Growth: c.growth})
		err := f.Restore(c.number, one)
		if c.sound != (err == nil) || !c.sound && !errors.Is(err, bloomstore.ErrFilterLost) {
			t.Errorf("growth %d: Restore to layer %d of a filter with 1 layer: %v, want no error: %t", c.growth, c.number, err, c.sound)
		}
	}
}

// TestReadSeesEveryBit flips each bit of a file, and cuts the file at each byte. Read must
// refuse every changed file.
func TestReadSeesEveryBit(t *testing.T) {
	if raceEnabled {
		t.Skip("slow, and with one goroutine the race detector finds nothing")
	}
	file := saved(t, fourLayers(t, tiny), tag)
	for i := range file {
		want := bloomstore.ErrFilterLost
		if i >= 8 && i < 12 { // bytes of the version, which can become the version of another layout
			want = bloomstore.ErrParamsMismatch
		}
		for bit := range 8 {
			file[i] ^= 1 << bit
			wantRefused(t, file, tiny, want, "")
			file[i] ^= 1 << bit
		}
		wantRefused(t, file[:i], tiny, bloomstore.ErrFilterLost, "the file ends at byte")
	}
	wantRefused(t, append(file, 0), tiny, bloomstore.ErrFilterLost, "the file has more bytes")
}

func wantRefused(t *testing.T, file []byte, config Config, want error, says string) {
	t.Helper()
	f, err := Read(bytes.NewReader(file), config, tag)
	if f != nil || !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
		t.Fatalf("Read of a changed file: %v; want the error %q with the text %q", err, want, says)
	}
}

// TestReadNamesTheFault damages each region of a file, and changes each parameter in it. The
// error of Read must name the fault.
func TestReadNamesTheFault(t *testing.T) {
	headerBytes := fixedBytes + 4*entryBytes
	for _, c := range []struct {
		name   string
		damage func(file []byte) []byte
		want   error
		says   string
	}{
		{"empty", func([]byte) []byte { return nil }, bloomstore.ErrFilterLost, "ends at byte 0 in the header, want 56 bytes more"},
		{"magic", func(b []byte) []byte { return append([]byte("GIF89a, "), b[8:]...) }, bloomstore.ErrFilterLost, "is not the file of a filter"},
		{"version", func(b []byte) []byte { b[8] = 2; return b }, bloomstore.ErrParamsMismatch, "version 2 of the layout, this program reads version 1"},
		{"layers", func(b []byte) []byte { b[53] = 1; return b }, bloomstore.ErrFilterLost, "names 260 layers, want 1 to 41"},
		{"fewer layers", func(b []byte) []byte { b[52] = 3; return b }, bloomstore.ErrFilterLost, "the header is damaged"},
		{"header", func(b []byte) []byte { b[20]++; return b }, bloomstore.ErrFilterLost, "the header is damaged"},
		{"table", func(b []byte) []byte { b[fixedBytes+20]++; return b }, bloomstore.ErrFilterLost, "the header is damaged"},
		{"header's sum", func(b []byte) []byte { b[headerBytes]++; return b }, bloomstore.ErrFilterLost, "the header is damaged: its checksum before byte 188"},
		{"first bits", func(b []byte) []byte { b[headerBytes+sumBytes]++; return b }, bloomstore.ErrFilterLost, "layer 0, shard 0 is damaged"},
		{"last bits", func(b []byte) []byte { b[len(b)-5]++; return b }, bloomstore.ErrFilterLost, "layer 3, shard 3 is damaged"},
		{"last sum", func(b []byte) []byte { b[len(b)-1]++; return b }, bloomstore.ErrFilterLost, "layer 3, shard 3 is damaged"},
		{"shards exchanged", swapShards, bloomstore.ErrFilterLost, "layer 0, shard 0 is damaged"},
		{"tag", rewrite(func(b []byte) { b[16] = 'T' }), bloomstore.ErrParamsMismatch, "tag is 546865206372617"},
		{"shards", rewrite(func(b []byte) { b[12] = 8 }), bloomstore.ErrParamsMismatch, "Shards is 8, want 4"},
		{"capacity", rewrite(func(b []byte) { b[32] = 31 }), bloomstore.ErrParamsMismatch, "Capacity is 31, want 30"},
		{"rate", rewrite(func(b []byte) { clear(b[40:48]) }), bloomstore.ErrParamsMismatch, "FPR is 0, want 0.001"},
		{"growth", rewrite(func(b []byte) { b[48] = 1 }), bloomstore.ErrParamsMismatch, "Growth is 1, want 0"},
		{"sizes", rewrite(func(b []byte) { b[fixedBytes+24] = 3 }), bloomstore.ErrParamsMismatch, "with 3 hashes, want "},
		{"all of them", rewrite(func(b []byte) { b[12], b[16], b[32], b[48] = 8, 'T', 31, 1 }), bloomstore.ErrParamsMismatch, "want 30; Growth"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantRefused(t, c.damage(saved(t, fourLayers(t, small), tag)), small, c.want, c.says)
		})
	}
}

// rewrite changes a header and corrects its checksum.
func rewrite(change func(header []byte)) func([]byte) []byte {
	return func(file []byte) []byte {
		change(file)
		end := fixedBytes + 4*entryBytes
		binary.LittleEndian.PutUint32(file[end:], crc32.Checksum(file[:end], castagnoli))
		return file
	}
}

// swapShards exchanges the first two sub-filters together with their checksums.
func swapShards(file []byte) []byte {
	first := fixedBytes + 4*entryBytes + sumBytes
	n := int(binary.LittleEndian.Uint64(file[fixedBytes+8:])/8) + sumBytes
	a, b := slices.Clone(file[first:first+n]), slices.Clone(file[first+n:first+2*n])
	copy(file[first:], b)
	copy(file[first+n:], a)
	return file
}

func TestGrowthOffRefusesLayers(t *testing.T) {
	file := rewrite(func(b []byte) { b[48] = 1 })(saved(t, fourLayers(t, small), tag))
	config := small
	config.Growth = GrowthOff
	_, err := Read(bytes.NewReader(file), config, tag)
	if !errors.Is(err, bloomstore.ErrParamsMismatch) && !errors.Is(err, bloomstore.ErrFilterLost) {
		t.Errorf("Read of four layers with growth off: %v, want ErrParamsMismatch or ErrFilterLost", err)
	}
}

func TestReadPassesErrorsOn(t *testing.T) {
	broken, file := errors.New("disk on fire"), saved(t, fourLayers(t, small), tag)
	for _, at := range []int{0, 60, 500, len(file)} {
		_, err := Read(io.MultiReader(bytes.NewReader(file[:at]), iotest.ErrReader(broken)), small, tag)
		if !errors.Is(err, broken) || errors.Is(err, bloomstore.ErrFilterLost) {
			t.Errorf("Read from a reader that fails at byte %d: %v, want %v without ErrFilterLost", at, err, broken)
		}
	}
	if _, err := Read(bytes.NewReader(file), Config{Shards: 3}, tag); err == nil {
		t.Error("Read with a faulty config: no error")
	}
}

// shortWriter fails after n bytes.
type shortWriter struct{ n int }

func (w *shortWriter) Write(part []byte) (int, error) {
	if len(part) > w.n {
		return w.n, io.ErrShortWrite
	}
	w.n -= len(part)
	return len(part), nil
}

func TestWriteToPassesErrorsOn(t *testing.T) {
	f := fourLayers(t, small)
	for _, room := range []int{0, 188, 1000} {
		if n, err := f.Snapshot(tag).WriteTo(&shortWriter{room}); n != int64(room) || !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("WriteTo with room for %d bytes: %d, %v; want %d, %v", room, n, err, room, io.ErrShortWrite)
		}
	}
}

// TestMemoryIsFlat: WriteTo allocates memory for one sub-filter. Read allocates memory for
// the filter and one more sub-filter.
func TestMemoryIsFlat(t *testing.T) {
	config := Config{Capacity: 1_000_000}
	f := open(t, config)
	sub := int64((*f.chain.Load())[0].bytes())
	if got := allocated(func() { f.Snapshot(tag).WriteTo(io.Discard) }); got > sub+64<<10 {
		t.Errorf("WriteTo allocates %d bytes, want little more than the %d of one sub-filter", got, sub)
	}
	file := saved(t, f, tag)
	if got := allocated(func() { reread(t, file, config) }); got > 66*sub+64<<10 {
		t.Errorf("Read of a file of %d bytes allocates %d, want that size and little more than one sub-filter of %d", len(file), got, sub)
	}
}

// TestReadAllocatesWhatItReads reads a header that names a filter of terabytes and has the
// right checksum. Read must not allocate that memory.
func TestReadAllocatesWhatItReads(t *testing.T) {
	f := open(t, small)
	h := f.Snapshot(tag).header
	for number := 1; number < 36; number++ {
		h.layers = append(h.layers, f.shape(number).entry(0))
	}
	file := h.encode()
	file = binary.LittleEndian.AppendUint32(file, crc32.Checksum(file, castagnoli))
	file = append(file, make([]byte, 1<<16)...)
	got := allocated(func() { wantRefused(t, file, small, bloomstore.ErrFilterLost, "layer 0") })
	if got > 1<<20 {
		t.Errorf("Read of a file of %d bytes allocates %d, want at most 1 MiB", len(file), got)
	}
}

func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestFileGolden checks that the bytes and the sizes of a file do not change. Another
// program computed the values from docs/design/filter.md. If they change, the file needs
// a new fileVersion.
func TestFileGolden(t *testing.T) {
	f := open(t, Config{Capacity: 4, FPR: 1e-2, Shards: 2})
	for i := range 7 {
		var fp bloomstore.Fingerprint
		for j := range fp {
			fp[j] = byte(17*i*j + 101*i + j)
		}
		if _, added := f.Add(fp); !added {
			t.Fatalf("Add of key %d: not added, want it new", i)
		}
	}
	const want = "62875d3d57c7addb25b9dd5efd3e17d928a3ec487441a6cd3bf5550761fd710f"
	file := saved(t, f, tag)
	if sum := sha256.Sum256(file); hex.EncodeToString(sum[:]) != want {
		t.Errorf("the file is %x with SHA-256 %x, want %s", file, sum, want)
	}
}

// FuzzRead: for any bytes, Read returns one of two errors, or a filter that writes the
// same bytes. If repair is true, the test corrects the header's checksum, so that Read
// also reads the parts after the header.
func FuzzRead(f *testing.F) {
	file := saved(f, fourLayers(f, small), tag)
	for _, cut := range []int{0, 8, 56, 187, 192, 300, len(file)} {
		f.Add(file[:cut], false)
		f.Add(file[:cut], true)
	}
	f.Fuzz(func(t *testing.T, data []byte, repair bool) {
		if repair && len(data) >= fixedBytes {
			end := fixedBytes + int(min(binary.LittleEndian.Uint32(data[52:]), maxLayers))*entryBytes
			if len(data) >= end+sumBytes {
				data = slices.Clone(data)
				binary.LittleEndian.PutUint32(data[end:], crc32.Checksum(data[:end], castagnoli))
			}
		}
		got, err := Read(bytes.NewReader(data), small, tag)
		switch {
		case err == nil && !bytes.Equal(saved(t, got, tag), data):
			t.Errorf("a filter that was read from a file of %d bytes writes another file", len(data))
		case err != nil && !errors.Is(err, bloomstore.ErrFilterLost) && !errors.Is(err, bloomstore.ErrParamsMismatch):
			t.Errorf("Read: %v, want ErrFilterLost or ErrParamsMismatch", err)
		}
	})
}
