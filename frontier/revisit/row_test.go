package revisit

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// content is a visit after some days that finds a text.
func content(after float64, text byte) Visit {
	return Visit{At: start.Add(fromDays(after)), Answer: Content, ETag: `"` + string(text) + `"`, Body: Digest{text, 1}, Text: Digest{text}}
}

func without(after float64, a Answer) Visit { return Visit{At: start.Add(fromDays(after)), Answer: a} }

// TestRow follows a page through its visits. wait is the time in days until the next one.
func TestRow(t *testing.T) {
	weekly := Fixed(7*day, Limits{time.Hour, 90 * day})
	otherBody, patient, forever, newTag := content(1, 'a'), content(1, 'a'), content(1, 'a'), without(1, NotModified)
	otherBody.Body = Digest{9}
	patient.MaxAge, forever.MaxAge = 20*day, 1000*day
	newTag.ETag = `"new"`
	for name, steps := range map[string][]struct {
		visit  Visit
		change Change
		wait   float64
	}{
		"text":              {{content(0, 'a'), New, 7}, {content(7, 'a'), Unchanged, 7}, {content(14, 'b'), Changed, 7}, {content(21, 'a'), Changed, 7}},
		"other bytes":       {{content(0, 'a'), New, 7}, {otherBody, Unchanged, 7}},
		"not modified":      {{content(0, 'a'), New, 7}, {newTag, Unchanged, 7}},
		"max-age":           {{content(0, 'a'), New, 7}, {patient, Unchanged, 20}},
		"max-age of years":  {{content(0, 'a'), New, 7}, {forever, Unchanged, 90}},
		"host is down":      {{content(0, 'a'), New, 7}, {without(7, NoAnswer), "", 7}, {without(14, NoAnswer), "", 7}, {content(21, 'a'), Unchanged, 7}},
		"missing for hours": {{content(0, 'a'), New, 7}, {without(7, NotFound), "", 1}, {without(7.5, NotFound), "", 0.5}, {content(8, 'a'), Unchanged, 7}},
		"gone, and back": {
			{content(0, 'a'), New, 7}, {without(7, NotFound), "", 1}, {without(8, NotFound), Gone, 7}, {without(15, NotFound), Unchanged, 14},
			{without(29, NotFound), Unchanged, 28}, {content(57, 'a'), Changed, 7}, {without(64, NotFound), "", 1},
		},
		"down while missing": {{content(0, 'a'), New, 7}, {without(7, NotFound), "", 1}, {without(9, NoAnswer), "", 7}, {without(16, NotFound), Gone, 7}},
		"never there":        {{without(0, NotFound), "", 1}, {without(1, NotFound), Gone, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			row, change := Row{}, Change("")
			for i, step := range steps {
				before := row
				row, change = row.After(step.visit, weekly, 1)
				if wait := days(row.Next.Sub(step.visit.At)); change != step.change || math.Abs(wait-step.wait) > 1e-6 {
					t.Errorf("visit %d: the change is %q and the next visit in %v days, want %q and %v", i, change, wait, step.change, step.wait)
				}
				if step.visit.Answer == NoAnswer && !row.Visited.Equal(before.Visited) {
					t.Errorf("visit %d without an answer counts", i)
				}
			}
			var copied Row
			b, err := row.AppendBinary(nil)
			if err := errors.Join(err, copied.UnmarshalBinary(b)); err != nil || !reflect.DeepEqual(copied, row) {
				t.Errorf("decoded: %+v, %v, want %+v", copied, err, row)
			}
			for n := range b {
				if err := copied.UnmarshalBinary(b[:n]); !errors.Is(err, ErrRow) {
					t.Errorf("the first %d of %d bytes are a row: %v", n, len(b), err)
				}
			}
		})
	}
	row, _ := Row{}.After(content(0, 'a'), weekly, 1)
	if row, _ = row.After(newTag, weekly, 1); row.ETag != `"new"` || row.Text != (Digest{'a'}) {
		t.Errorf("after 304 with a new ETag the row has %s and the text %x", row.ETag, row.Text[:1])
	}
	if row, _ = row.After(without(2, NotModified), weekly, 1); row.ETag != `"new"` {
		t.Errorf("after 304 without an ETag the row has %q", row.ETag)
	}
}

// TestNever: a page that is not visited again has no time, whatever its visits find, until it has another plan.
func TestNever(t *testing.T) {
	never, weekly := Aim{}.Plan(new(Census), Limits{time.Hour, 90 * day}), Fixed(7*day, Limits{time.Hour, 90 * day})
	for name, answer := range map[string]Answer{"content": Content, "not found": NotFound, "no answer": NoAnswer} {
		at := time.Unix(1e9, 0).UTC()
		row, _ := Row{}.After(Visit{At: at, Answer: Content}, weekly, 1)
		at = at.Add(7 * day)
		row, _ = row.After(Visit{At: at, Answer: answer}, never, 1)
		years := row.Next.Sub(at) / (365 * day)
		if again := row.Again(weekly, 1, time.Time{}); years < 90 || again.Next.Sub(at) > 7*day {
			t.Errorf("%s: the next visit is after %d years, and with another plan at %v, want never, and within 7 days", name, years, again.Next)
		}
		if again := row.Again(weekly, 1, time.Time{}).Again(never, 1, time.Time{}); again.Next.Sub(at) < 90*365*day {
			t.Errorf("%s: with the plan again the next visit is at %v, want never", name, again.Next)
		}
	}
}

// TestHistory: a row keeps its last intervals, shares none with the rows before it, and remembers no interval of a clock that went back.
func TestHistory(t *testing.T) {
	plan := Fixed(day, Limits{time.Hour, 90 * day})
	row, _ := Row{}.After(content(0, 'a'), plan, 1)
	for i := range 3 * MaxIntervals {
		one, _ := row.After(without(float64(i+1), NotModified), plan, 1)
		two, _ := row.After(content(float64(i+1), byte(i)), plan, 1)
		if n := len(two.History); n != min(i+1, MaxIntervals) || one.History[n-1].Changed || !two.History[n-1].Changed {
			t.Fatalf("after %d intervals: %d kept, the last one %+v, and %+v in another row", i+1, n, one.History[n-1], two.History[n-1])
		}
		row = two
	}
	if back, _ := row.After(content(-10, 'a'), plan, 1); !reflect.DeepEqual(back.History, row.History) {
		t.Errorf("after a clock went back the last interval is %+v", back.History[len(back.History)-1])
	}
}

// TestRate compares estimates with the true rates of random pages, and with the rate for which the derivative of the likelihood is 0.
func TestRate(t *testing.T) {
	t.Logf("seed %d", *seed)
	if got := Rate(nil); math.Abs(got-2*math.Ln2) > 1e-6 {
		t.Errorf("Rate without a history is %v, want 2 ln 2", got)
	}
	rng := rand.New(rand.NewPCG(*seed, 1))
	for _, actual := range []float64{1, 1.0 / 7, 1.0 / 30} {
		sum := 0.0
		const pages = 400
		for range pages {
			var h History
			for range MaxIntervals {
				t := (0.5 + rng.Float64()) / actual
				h = h.add(Interval{fromDays(t), rng.Float64() < -math.Expm1(-actual*t)})
			}
			sum += math.Log(Rate(h) / actual)
		}
		if bias := sum / pages; math.Abs(bias) > 0.15 {
			t.Errorf("pages that change %v times a day are estimated too high by a factor of %.3f", actual, math.Exp(bias))
		}
	}
	always, never := History{{day, true}, {day, true}}, History{{30 * day, false}, {30 * day, false}}
	if Rate(always) < 2 || Rate(never) > 0.05 {
		t.Errorf("rates of %v and %v for pages that always and never changed", Rate(always), Rate(never))
	}
}

// TestWanted checks that a plan gives the share that was asked for by the rates of the census, that weight counts, and the limits.
func TestWanted(t *testing.T) {
	c := &Census{}
	limits := Limits{time.Minute, 400 * day}
	for rate := 1.0 / 64; rate < 4; rate *= 1.1 {
		c.Add(rate, 1, 3)
	}
	for _, share := range []float64{0.5, 0.8, 0.95} {
		p := Wanted(share, c, limits)
		if got := c.Fresh(p); math.Abs(got-share) > 0.005 {
			t.Errorf("a plan for %v keeps %v up to date", share, got)
		}
		uniform := Fixed(fromDays(c.total()/c.Requests(p)), limits)
		if got := c.Fresh(uniform); got > share {
			t.Errorf("with the requests for %v, equal intervals keep %v up to date", share, got)
		}
		if light, heavy := p.Interval(0.1, 1), p.Interval(0.1, 3); heavy >= light {
			t.Errorf("weight 1 is visited after %v, and weight 3 after %v", light, heavy)
		}
	}
	for rate := 1e-5; rate < 1e5; rate *= 3 {
		if got := Wanted(0.9, c, Limits{time.Hour, 9 * day}).Interval(rate, 1); got < time.Hour || got > 9*day {
			t.Errorf("rate %v: the interval is %v, outside the limits", rate, got)
		}
	}
	if got := Wanted(0.8, &Census{}, limits).Interval(1, 1); got < limits.Least || got > limits.Most {
		t.Errorf("the interval of a plan without pages is %v", got)
	}
	for _, bad := range []Limits{{}, {time.Hour, time.Minute}, {-1, 1}} {
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("Validate of %v: %v", bad, err)
		}
	}
}

// total returns the number of pages.
func (c *Census) total() (n float64) {
	c.each(func(_, _, pages float64) { n += pages })
	return n
}

// TestChangesAt compares the table with the equation that it solves.
func TestChangesAt(t *testing.T) {
	for worth := 1e-9; worth < 0.999999; worth *= 1.07 {
		x := changesAt(worth)
		if got := -math.Expm1(-x) - x*math.Exp(-x); math.Abs(got-worth) > 0.01*worth+1e-8 {
			t.Errorf("changesAt(%v) = %v, for which the price is %v", worth, x, got)
		}
	}
	if !math.IsInf(changesAt(1), 1) {
		t.Error("a page that is not worth a request is visited")
	}
}

// FuzzRow decodes any bytes. What can be decoded must be encoded to the same bytes again, but for times beyond the range.
func FuzzRow(f *testing.F) {
	row, _ := Row{}.After(content(0, 'a'), Fixed(day, Limits{1, day}), 1)
	row, _ = row.After(content(2, 'b'), Fixed(day, Limits{1, day}), 1)
	b, _ := row.AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again Row
		if err := r.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrRow) {
				t.Fatal(err)
			}
			return
		}
		encoded, err := r.AppendBinary(nil)
		if err := errors.Join(err, again.UnmarshalBinary(encoded)); err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v, %v, want %+v", again, err, r)
		}
	})
}
