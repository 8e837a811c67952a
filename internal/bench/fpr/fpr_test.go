package fpr

import (
	"context"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/sizing"
)

var seed = flag.Uint64("seed", 0, "replay random tests with this seed; 0: a new one")

// runSteps runs the steps of a section within a budget.
func runSteps(t *testing.T, budget time.Duration, section *report.Section) error {
	r := report.Report{Began: time.Now(), Budget: budget.Seconds(), Sections: []*report.Section{section}}
	return r.Run(t.Context(), func(line string) { t.Log(line) })
}

func measure(t *testing.T, config Config) *report.Section {
	t.Helper()
	if config.Seed = *seed; config.Seed == 0 {
		config.Seed = rand.Uint64()
	}
	t.Logf("replay with -seed=%d", config.Seed)
	section := Section(config)
	if err := runSteps(t, 5*time.Minute, section); err != nil {
		t.Fatal(err)
	}
	for _, m := range section.Missing {
		t.Errorf("the report lacks %s: %s", m.What, m.Why)
	}
	return section
}

// broken returns the broken promises of a section, one on each line.
func broken(s *report.Section) string {
	var all []string
	for _, p := range s.Promises {
		all = append(all, p.Broken...)
	}
	return strings.Join(all, "\n")
}

// quick returns the subject of Memory with fewer probes.
func quick() Subject {
	s := Memory()
	s.Probes = 400_000
	return s
}

// TestMemoryKeepsPromises measures a sound filter. By chance, fewer than one in 10,000 runs
// fail.
func TestMemoryKeepsPromises(t *testing.T) {
	s := measure(t, Config{Keys: 50_000, Rates: []float64{0.05, 0.01, 1e-3}, Subjects: []Subject{quick()}})
	if faults := broken(s); faults != "" {
		t.Errorf("broken promises, want none:\n%s", faults)
	}
	if rows := len(s.Tables[0].Rows); rows != 3+2*2 {
		t.Errorf("%d rows, want 7: 3 rates, and 2 growing filters for each of 2 rates", rows)
	}
	for _, p := range s.Promises {
		if (p.Checks == 0) != strings.Contains(p.Name, "exact") {
			t.Errorf("promise %q: %d figures were checked, want none if it is about exact keys, else some", p.Name, p.Checks)
		}
	}
}

// mutant is a filter with a fault.
type mutant struct {
	filter
	seen func(bloomstore.Fingerprint) bloomstore.Fingerprint // the fingerprint that the mutant uses for a key
	lies func(bloomstore.Fingerprint) (claims, denies bool)  // whether Contains always claims a key, or always denies it
}

func (m *mutant) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	return m.filter.AddIfAbsent(ctx, m.replaced(prints))
}

func (m *mutant) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	known, err := m.filter.Contains(ctx, m.replaced(prints))
	for i, fp := range prints {
		claims, denies := m.lies(fp)
		known[i] = (known[i] || claims) && !denies
	}
	return known, err
}

func set(f bloomstore.Filter) *sets.Set {
	return &sets.Set{
		Add: func(ctx context.Context, links sets.Links) ([]bool, error) {
			return f.AddIfAbsent(ctx, links.(sets.Prints))
		},
		Contains: func(ctx context.Context, links sets.Links) ([]bool, error) {
			return f.Contains(ctx, links.(sets.Prints))
		},
		Close:  func() error { return nil },
		Remove: func(context.Context) error { return nil },
	}
}

func (m *mutant) replaced(prints []bloomstore.Fingerprint) []bloomstore.Fingerprint {
	all := make([]bloomstore.Fingerprint, len(prints))
	for i, fp := range prints {
		all[i] = m.seen(fp)
	}
	return all
}

// smaller returns the subject of quick, with a plan that the function change has modified.
func smaller(change func(*sets.Plan)) Subject {
	s := quick()
	open := s.Open
	s.Open = func(ctx context.Context, plan sets.Plan) (*sets.Set, error) { change(&plan); return open(ctx, plan) }
	return s
}

// mutated returns the subject of quick, with a mutant of its set.
func mutated(seen func(bloomstore.Fingerprint) bloomstore.Fingerprint, lies func(bloomstore.Fingerprint) (claims, denies bool)) Subject {
	s := quick()
	open := s.Open
	s.Open = func(ctx context.Context, plan sets.Plan) (*sets.Set, error) {
		sound, err := open(ctx, plan)
		return set(&mutant{filter{sound}, seen, lies}), err
	}
	return s
}

func itself(fp bloomstore.Fingerprint) bloomstore.Fingerprint { return fp }
func honest(bloomstore.Fingerprint) (claims, denies bool)     { return false, false }

// simpleFilter is a simple Bloom filter, implemented for this test.
type simpleFilter struct {
	bits     []uint64
	m        uint64 // number of bits
	hashes   uint
	position func(fp bloomstore.Fingerprint, i uint, m uint64) uint64 // position i of a fingerprint
}

func (o *simpleFilter) AddIfAbsent(_ context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	added := make([]bool, len(prints))
	for i, fp := range prints {
		added[i] = !o.claims(fp)
		for h := range o.hashes {
			at := o.position(fp, h, o.m)
			o.bits[at/64] |= 1 << (at % 64)
		}
	}
	return added, nil
}

func (o *simpleFilter) Contains(_ context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	known := make([]bool, len(prints))
	for i, fp := range prints {
		known[i] = o.claims(fp)
	}
	return known, nil
}

func (o *simpleFilter) claims(fp bloomstore.Fingerprint) bool {
	for h := range o.hashes {
		if at := o.position(fp, h, o.m); o.bits[at/64]>>(at%64)&1 == 0 {
			return false
		}
	}
	return true
}

// textbook returns a subject whose set is a simpleFilter. The filter has fewer hash
// functions than the optimal number; lacking is the difference. The function position
// computes the positions of fingerprints.
func textbook(lacking uint, position func(fp bloomstore.Fingerprint, i uint, m uint64) uint64) Subject {
	s := quick()
	s.Open = func(_ context.Context, plan sets.Plan) (*sets.Set, error) {
		m, k := sizing.OptimalBits(plan.Capacity, plan.FPR)
		return set(&simpleFilter{bits: make([]uint64, m/64+1), m: m, hashes: k - lacking, position: position}), nil
	}
	s.Theory = func(c Case) Theory {
		m, k := sizing.OptimalBits(c.Capacity, c.FPR)
		spread := sizing.RateSpread(float64(c.Keys), 1, m, k)
		t := Theory{Slack: 0.002}
		t.FPR.add(sizing.ShardedFalsePositiveRate(c.Keys, 1, m, k), spread)
		t.Lost.add(sizing.LostWhileFilling(c.Keys, m, k), spread)
		return t
	}
	return s
}

// apart returns position i of a fingerprint. The positions are independent.
func apart(fp bloomstore.Fingerprint, i uint, m uint64) uint64 {
	x := half(fp, 0) + uint64(i)*(half(fp, 8)|1)
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return (x ^ x>>32) % m
}

// together returns position i of a fingerprint. If i is odd, this is the bit directly after
// position i-1.
func together(fp bloomstore.Fingerprint, i uint, m uint64) uint64 {
	return (apart(fp, i/2, m) + uint64(i%2)) % m
}

func half(fp bloomstore.Fingerprint, from int) (x uint64) {
	for _, b := range fp[from : from+8] {
		x = x<<8 | uint64(b)
	}
	return x
}

// TestFindsFaults checks that each faulty set breaks the expected promises, and that a
// sound set breaks none.
func TestFindsFaults(t *testing.T) {
	const bound, theory, known = 0, 1, 3 // the promises, in the order of the section
	for _, c := range []struct {
		fault   string
		subject Subject
		p       float64
		breaks  []int
	}{
		{"none", textbook(0, apart), 0.05, nil},
		{"one hash too few", textbook(1, apart), 0.05, []int{bound, theory}},
		{"correlated positions", textbook(0, together), 0.01, []int{bound, theory}},
		{"made for half of the keys", smaller(func(plan *sets.Plan) { plan.Capacity /= 2 }), 0.01, []int{bound, theory}},
		{"made for twice the keys", smaller(func(plan *sets.Plan) { plan.Capacity *= 2 }), 0.01, []int{theory}},
		{"looks at too few bytes", mutated(func(fp bloomstore.Fingerprint) bloomstore.Fingerprint {
			clear(fp[3:])
			return fp
		}, honest), 1e-3, []int{bound, theory}},
		{"claims a key in 256", mutated(itself, func(fp bloomstore.Fingerprint) (bool, bool) { return fp[3] == 7, false }), 1e-3, []int{bound, theory}},
		{"forgets a key in 32", mutated(itself, func(fp bloomstore.Fingerprint) (bool, bool) { return false, fp[3]%32 == 7 }), 0.01, []int{known}},
	} {
		t.Run(c.fault, func(t *testing.T) {
			c.subject.Probes = 1_000_000
			m := newMeasurement(Config{Keys: 50_000})
			random := *seed
			if random == 0 {
				random = rand.Uint64()
			}
			t.Logf("replay with -seed=%d", random)
			m.step(c.subject, Case{Keys: 50_000, Capacity: 50_000, FPR: c.p}, random)
			if err := runSteps(t, time.Minute, m.section); err != nil {
				t.Fatal(err)
			}
			for _, i := range c.breaks {
				if p := m.section.Promises[i]; len(p.Broken) == 0 {
					t.Errorf("promise %q is kept, want it broken", p.Name)
				}
			}
			if faults := broken(m.section); c.breaks == nil && faults != "" {
				t.Errorf("broken promises, want none:\n%s", faults)
			}
		})
	}
}

// TestFindsLostExactKeys checks that an exact set breaks a promise if it loses one key in a
// thousand, or claims keys that were not added.
func TestFindsLostExactKeys(t *testing.T) {
	exact := func(seen func(bloomstore.Fingerprint) bloomstore.Fingerprint, lies func(bloomstore.Fingerprint) (claims, denies bool)) Subject {
		return Exact(sets.Kind{Name: "in memory", Open: func(context.Context, sets.Plan) (*sets.Set, error) {
			return set(&mutant{filter{set(bloomtest.Exact())}, seen, lies}), nil
		}})
	}
	sound := exact(itself, honest)
	loses := exact(func(fp bloomstore.Fingerprint) bloomstore.Fingerprint {
		if half(fp, 0)%1000 == 0 {
			return bloomstore.Fingerprint{}
		}
		return fp
	}, honest)
	claims := exact(itself, func(fp bloomstore.Fingerprint) (claims, denies bool) { return half(fp, 0)%10 == 0, false })
	if faults := broken(measure(t, Config{Keys: 200_000, Subjects: []Subject{sound}})); faults != "" {
		t.Errorf("broken promises, want none:\n%s", faults)
	}
	if faults := broken(measure(t, Config{Keys: 200_000, Subjects: []Subject{loses}})); !strings.Contains(faults, "new keys were taken for known ones") {
		t.Errorf("broken promises %q, want one about new keys that were taken for known ones", faults)
	}
	if faults := broken(measure(t, Config{Keys: 20_000, Subjects: []Subject{claims}})); !strings.Contains(faults, "keys that were never added") {
		t.Errorf("broken promises %q, want one about keys that were never added", faults)
	}
}

// TestPostgresSetIsExact checks that the exact set in Postgres loses no key and claims no key
// that was not added, and that the measurement removes its crawl.
func TestPostgresSetIsExact(t *testing.T) {
	server := servers.Postgres(t, servers.PostgresOptions{})
	s := measure(t, Config{Keys: 5_000, Subjects: []Subject{Exact(sets.Postgres(server.DSN()))}})
	if faults := broken(s); faults != "" {
		t.Errorf("broken promises, want none:\n%s", faults)
	}
	for _, p := range s.Promises {
		if want := strings.Contains(p.Name, "exact") || strings.Contains(p.Name, "denied"); (p.Checks > 0) != want {
			t.Errorf("promise %q: %d figures were checked, want some: %t", p.Name, p.Checks, want)
		}
	}
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var left int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM crawler.crawl").Scan(&left); err != nil || left > 0 {
		t.Errorf("%d crawls are left in Postgres (%v)", left, err)
	}
}

// TestRedisSetsKeepPromises checks that the filter in Redis keeps the promises, that
// redisstore and localstore lose no exact key, and that no keys are left in Redis.
func TestRedisSetsKeepPromises(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	in, err := sets.OpenRedis(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	filter := Redis(in)
	filter.Probes = 0
	s := measure(t, Config{Keys: 20_000, Rates: []float64{0.05, 0.01}, Subjects: []Subject{
		filter, Exact(sets.RedisStore(in)), Exact(sets.Local(t.TempDir())),
	}})
	if faults := broken(s); faults != "" {
		t.Errorf("broken promises, want none:\n%s", faults)
	}
	for _, p := range s.Promises {
		if p.Checks == 0 {
			t.Errorf("promise %q: no figure was checked", p.Name)
		}
	}
	if keys, err := server.Client().Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("keys are left in Redis: %q (%v)", keys, err)
	}
}

// TestBudgetIsStated checks that the report mentions a rate for which the budget did not
// suffice for 100/p probes.
func TestBudgetIsStated(t *testing.T) {
	section := Section(Config{Keys: 1000, Rates: []float64{1e-9}, Subjects: []Subject{Memory()}})
	if err := runSteps(t, 200*time.Millisecond, section); err != nil {
		t.Fatal(err)
	}
	if len(section.Missing) == 0 || !strings.Contains(section.Missing[0].Why, "budget") {
		t.Errorf("the report lacks %+v, want the rate whose budget did not suffice", section.Missing)
	}
}

// TestSmallLayers measures two filters that have grown by adding layers. The first layer of
// the small filter has only 39 keys in each of its parts. With the seed of this test, the
// rate of this filter is by chance 1.7 times the theoretical rate. So the promises must be
// checked only for the large filter.
func TestSmallLayers(t *testing.T) {
	small := Case{Keys: 20_000, Capacity: 2500, FPR: 1e-4, Growth: true}
	large := Case{Keys: 160_000, Capacity: 20_000, FPR: 1e-4, Growth: true}
	subject := Memory()
	subject.Probes = 5_000_000
	m := newMeasurement(Config{Keys: small.Keys})
	m.step(subject, small, 4237745044669234974)
	m.step(subject, large, 1)
	if err := runSteps(t, time.Minute, m.section); err != nil {
		t.Fatal(err)
	}
	if faults := broken(m.section); faults != "" {
		t.Errorf("broken promises, want none:\n%s", faults)
	}
	if held := m.section.Promises[0].Checks; held != 1 {
		t.Errorf("the bound was checked for %d filters, want 1: the larger one", held)
	}
	for _, missing := range m.section.Missing {
		if !strings.Contains(missing.Why, "so few keys differ by chance by ±14 %") {
			t.Errorf("the report lacks %+v, want only figures of filters with few keys", missing)
		}
	}
}
