package redisbits

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

const benchKeys = 1_000_000

// load measures the function run. Each call of run gets the next fingerprints of prints, as many
// as the argument batch says. After the last ones, load starts with the first ones again. It
// reports the keys per second, the processor time of the server and, if the server has an
// append-only file, the growth of that file.
func load(b *testing.B, server *servers.RedisServer, prints []bloomstore.Fingerprint, batch int, run func([]bloomstore.Fingerprint) error) {
	cpu, err := server.CPU()
	if err != nil {
		b.Fatal(err)
	}
	log, logErr := server.AOFSize()
	b.ReportAllocs()
	at := 0
	for b.Loop() {
		if at+batch > len(prints) {
			at = 0
		}
		if err := run(prints[at : at+batch]); err != nil {
			b.Fatal(err)
		}
		at += batch
	}
	after, err := server.CPU()
	if err != nil {
		b.Fatal(err)
	}
	keys := float64(b.N) * float64(batch)
	b.ReportMetric(keys/b.Elapsed().Seconds(), "keys/s")
	b.ReportMetric(float64((after-cpu).Nanoseconds())/1e3/keys, "server-µs/key")
	if logErr == nil {
		logAfter, err := server.AOFSize()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(logAfter-log)/keys, "aof-B/key")
	}
}

// BenchmarkSeen measures look-ups of known keys in chains of one, two and three layers. A
// look-up of one key reads one block of each layer.
func BenchmarkSeen(b *testing.B) {
	server := servers.Redis(b, servers.RedisOptions{})
	client := dial(b, server)
	prints := randomPrints(rand.New(rand.NewPCG(1, 0)), benchKeys)
	for layers := 1; layers <= 3; layers++ {
		f := fresh(b, client, Config{Capacity: benchKeys, Partitions: 256})
		for n := 1; n <= layers; n++ {
			if n > 1 {
				for _, c := range f.chains {
					if err := c.Extend(b.Context(), client, n-1); err != nil {
						b.Fatal(err)
					}
				}
			}
			if _, err := f.AddIfAbsent(b.Context(), prints[(n-1)*len(prints)/layers:n*len(prints)/layers]); err != nil {
				b.Fatal(err)
			}
		}
		r := NewReader(client)
		for _, batch := range []int{100, 1000} {
			asks := make([]Ask, batch)
			b.Run(fmt.Sprintf("way=block/p=1e-6/layers=%d/batch=%d", layers, batch), func(b *testing.B) {
				load(b, server, prints, batch, func(prints []bloomstore.Fingerprint) error {
					for i, fp := range prints {
						asks[i] = Ask{Chain: f.chains[PartitionOf(fp, len(f.chains))], Print: fp}
					}
					if err := r.Read(b.Context(), asks); err != nil {
						return err
					}
					for i := range asks {
						if !asks[i].Known {
							return fmt.Errorf("Read of %x, which was added: not known", asks[i].Print)
						}
					}
					return nil
				})
			})
		}
	}
}

// setbitLua sets the bits of keys one by one, and replies which keys had all of them before.
const setbitLua = `
local known, k = {}, tonumber(ARGV[1])
for i, key in ipairs(KEYS) do
  known[i] = 1
  for j = 1, k do
    if redis.call('SETBIT', key, ARGV[1 + (i - 1) * k + j], 1) == 0 then known[i] = 0 end
  end
end
return known`

// BenchmarkSeenOtherwise measures other ways to look up or add keys in Redis: with commands for
// single bits of the same layout, with plain sets, and with the filters of RedisBloom.
func BenchmarkSeenOtherwise(b *testing.B) {
	server := servers.Redis(b, servers.RedisOptions{})
	client := dial(b, server)
	prints := randomPrints(rand.New(rand.NewPCG(1, 0)), benchKeys)
	f := fresh(b, client, Config{Capacity: benchKeys, Partitions: 256})
	if _, err := f.AddIfAbsent(b.Context(), prints); err != nil {
		b.Fatal(err)
	}
	partition := func(fp bloomstore.Fingerprint) int { return PartitionOf(fp, len(f.chains)) }
	// bits returns the segment of fp and the k positions of fp in that segment.
	bits := func(fp bloomstore.Fingerprint) (key string, at []int64) {
		t := (*f.chains[partition(fp)].keyed.Load())[0]
		segment, from := t.Locate(fp)
		for _, position := range positions(t.Layer, fp, t.Hashes) {
			at = append(at, from*8+int64(position))
		}
		return t.keys[segment], at
	}
	setbit := redis.NewScript(setbitLua)
	hashes := (*f.chains[0].keyed.Load())[0].Hashes
	for _, way := range []struct {
		name  string
		queue func(pipe redis.Pipeliner, prints []bloomstore.Fingerprint)
		once  func() error
	}{
		{"bitfield-per-bit", func(pipe redis.Pipeliner, prints []bloomstore.Fingerprint) {
			for _, fp := range prints {
				key, at := bits(fp)
				args := make([]any, 0, 2*len(at))
				for _, position := range at {
					args = append(args, "u1", position)
				}
				pipe.BitFieldRO(b.Context(), key, args...)
			}
		}, nil},
		{"setbit-in-lua", func(pipe redis.Pipeliner, prints []bloomstore.Fingerprint) {
			keys, args := make([]string, len(prints)), []any{hashes}
			for i, fp := range prints {
				key, at := bits(fp)
				keys[i] = key
				for _, position := range at {
					args = append(args, position)
				}
			}
			pipe.EvalSha(b.Context(), setbit.Hash(), keys, args...)
		}, func() error { return setbit.Load(b.Context(), client).Err() }},
		{"sadd", func(pipe redis.Pipeliner, prints []bloomstore.Fingerprint) {
			for _, fp := range prints {
				pipe.SAdd(b.Context(), fmt.Sprintf("set%d", partition(fp)), fp[:])
			}
		}, nil},
		{"bf.madd", func(pipe redis.Pipeliner, prints []bloomstore.Fingerprint) {
			args := []any{"BF.MADD", "bf"}
			for _, fp := range prints {
				args = append(args, fp[:])
			}
			pipe.Do(b.Context(), args...)
		}, func() error { return client.Do(b.Context(), "BF.RESERVE", "bf", 1e-6, benchKeys).Err() }},
	} {
		for _, batch := range []int{100, 1000} {
			b.Run(fmt.Sprintf("way=%s/p=1e-6/batch=%d", way.name, batch), func(b *testing.B) {
				if way.once != nil {
					if err := way.once(); err != nil && strings.Contains(err.Error(), "unknown command") {
						b.Skip(err)
					} else if err != nil && !strings.Contains(err.Error(), "exists") {
						b.Fatal(err)
					}
				}
				load(b, server, prints, batch, func(prints []bloomstore.Fingerprint) error {
					pipe := client.Pipeline()
					way.queue(pipe, prints)
					_, err := pipe.Exec(b.Context())
					return err
				})
			})
		}
	}
}

// BenchmarkAdd measures additions of keys that are all new, for several block sizes.
func BenchmarkAdd(b *testing.B) {
	for _, p := range []float64{1e-2, 1e-6} {
		for _, blockBits := range []int{512, 1024, 2048} {
			for _, batch := range []int{4, 100} { // per chain
				b.Run(fmt.Sprintf("p=%g/B=%d/batch=%d", p, blockBits, batch), func(b *testing.B) {
					server := servers.Redis(b, servers.RedisOptions{AppendOnly: true})
					f := fresh(b, dial(b, server), Config{Capacity: 2_000_000, FPR: p, Partitions: 16, BlockBits: blockBits})
					rng := rand.New(rand.NewPCG(1, 0))
					prints := make([]bloomstore.Fingerprint, batch*len(f.chains))
					load(b, server, prints, len(prints), func(prints []bloomstore.Fingerprint) error {
						for i := range prints {
							prints[i] = randomPrint(rng)
						}
						_, err := f.AddIfAbsent(b.Context(), prints)
						return err
					})
				})
			}
		}
	}
}

// or32Lua adds keys as add.lua does, but it does not compare blocks. It combines each stored
// block with the mask of a key by OR, word by word.
const or32Lua = `
local added, words = {}, 'I4I4I4I4I4I4I4I4'
for at = 1, #ARGV, 3 do
  local old, parts = redis.call('GETRANGE', KEYS[1], ARGV[at], ARGV[at + 1]), {}
  for i = 1, #old, 32 do
    local x, y = {struct.unpack(words, old, i)}, {struct.unpack(words, ARGV[at + 2], i)}
    for j = 1, 8 do x[j] = bit.bor(x[j], y[j]) end
    parts[#parts + 1] = struct.pack(words, unpack(x, 1, 8))
  end
  local new = table.concat(parts)
  if new ~= old then redis.call('SETRANGE', KEYS[1], ARGV[at], new) end
  added[#added + 1] = new ~= old and 1 or 0
end
return added`

// bitfieldLua sets the bits of a key one by one.
const bitfieldLua = `
local added, k = {}, tonumber(ARGV[1])
for at = 2, #ARGV, k do
  local new = 0
  for j = at, at + k - 1 do
    if redis.call('BITFIELD', KEYS[1], 'SET', 'u1', ARGV[j], 1)[1] == 0 then new = 1 end
  end
  added[#added + 1] = new
end
return added`

// BenchmarkAddOtherwise measures alternatives to add.lua.
func BenchmarkAddOtherwise(b *testing.B) {
	const batch = 100
	for _, p := range []float64{1e-2, 1e-6} {
		for _, blockBits := range []int{512, 1024, 2048} {
			for form, lua := range map[string]string{"or32": or32Lua, "bitfield-per-bit": bitfieldLua} {
				b.Run(fmt.Sprintf("form=%s/p=%g/B=%d/batch=%d", form, p, blockBits, batch), func(b *testing.B) {
					server := servers.Redis(b, servers.RedisOptions{AppendOnly: true})
					client := dial(b, server)
					f := fresh(b, client, Config{Capacity: 2_000_000, FPR: p, Partitions: 16, BlockBits: blockBits})
					script, rng := redis.NewScript(lua), rand.New(rand.NewPCG(1, 0))
					if err := script.Load(b.Context(), client).Err(); err != nil {
						b.Fatal(err)
					}
					load(b, server, make([]bloomstore.Fingerprint, batch*len(f.chains)), batch*len(f.chains), func([]bloomstore.Fingerprint) error {
						pipe := client.Pipeline()
						for _, c := range f.chains {
							t := (*c.keyed.Load())[0]
							var args []any
							if form == "bitfield-per-bit" {
								args = append(args, t.Hashes)
							}
							for range batch {
								fp := randomPrint(rng)
								_, from := t.Locate(fp)
								if form == "or32" {
									args = append(args, from, from+int64(t.BlockBytes)-1, t.Mask(make([]byte, t.BlockBytes), fp))
									continue
								}
								for _, position := range positions(t.Layer, fp, t.Hashes) {
									args = append(args, from*8+int64(position))
								}
							}
							pipe.EvalSha(b.Context(), script.Hash(), t.keys[:1], args...)
						}
						_, err := pipe.Exec(b.Context())
						return err
					})
				})
			}
		}
	}
}
