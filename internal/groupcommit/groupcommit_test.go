package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/internal/groupcommit"
)

// job is an item of the tests.
type job struct {
	number int
	err    error // its result
}

// commits records what a queue commits. A commit takes as long as the test wants.
type commits struct {
	running sync.WaitGroup
	hold    chan struct{} // each commit waits for one value; nil if commits do not wait

	mu       sync.Mutex
	groups   [][]int // numbers of the items, group by group
	under    int     // number of commits in progress
	maxUnder int
}

// queue returns a queue whose commits are recorded in c. The function fail returns
// the result of an item.
func (c *commits) queue(maxSize, parallel int, fail func(*job) error) *groupcommit.Queue[*job] {
	return groupcommit.New(groupcommit.Config[*job]{
		MaxSize: maxSize, Parallel: parallel,
		Go: func(run func(context.Context)) error {
			c.running.Go(func() { run(context.Background()) })
			return nil
		},
		Commit: func(_ context.Context, jobs []*job) {
			c.begin(jobs)
			if c.hold != nil {
				<-c.hold
			}
			for _, j := range jobs {
				j.err = fail(j)
			}
			c.end()
		},
	})
}

func (c *commits) begin(jobs []*job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var numbers []int
	for _, j := range jobs {
		numbers = append(numbers, j.number)
	}
	c.groups = append(c.groups, numbers)
	c.under++
	c.maxUnder = max(c.maxUnder, c.under)
}

func (c *commits) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.under--
}

func succeed(*job) error { return nil }

// TestRacingCallers lets 16 callers commit many items each. Every item must be committed
// once, no group may be larger than its limit, no more groups than allowed may be committed
// at the same time, and every caller must get the results of its own items.
func TestRacingCallers(t *testing.T) {
	const callers, each, maxSize = 16, 500, 5
	for parallel := 1; parallel <= 2; parallel++ {
		var c commits
		q := c.queue(maxSize, parallel, func(j *job) error {
			if j.number%7 == 0 {
				return fmt.Errorf("job %d", j.number)
			}
			return nil
		})
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				for i := range each {
					j := &job{number: caller*each + i}
					if err := q.Add(j, 1).Wait(t.Context()); err != nil {
						t.Error(err)
					}
					want := ""
					if j.number%7 == 0 {
						want = fmt.Sprintf("job %d", j.number)
					}
					if got := j.err; got == nil && want != "" || got != nil && got.Error() != want {
						t.Errorf("job %d: %v, want %q", j.number, got, want)
					}
				}
			})
		}
		all.Wait()
		c.running.Wait()
		var numbers []int
		for _, group := range c.groups {
			if len(group) == 0 || len(group) > maxSize {
				t.Errorf("a group has %d items, want 1 to %d", len(group), maxSize)
			}
			numbers = append(numbers, group...)
		}
		slices.Sort(numbers)
		for i, n := range numbers {
			if n != i {
				t.Fatalf("the sorted items have %d in place of %d: one is missing or was committed twice", n, i)
			}
		}
		if len(numbers) != callers*each || c.maxUnder > parallel || q.Len() != 0 {
			t.Errorf("%d items committed, %d groups at once, %d wait; want %d, at most %d, 0",
				len(numbers), c.maxUnder, q.Len(), callers*each, parallel)
		}
	}
}

// TestItemsFormGroups: items that arrive during a commit form groups, in the order in which
// they arrived, and each group has at most the maximum size. A second commit begins during
// the first one only if the second group is full.
func TestItemsFormGroups(t *testing.T) {
	for _, test := range []struct {
		maxSize, parallel int
		sizes             []int   // sizes of the items after the first
		begun             [][]int // groups that have begun before the first commit ends
		want              [][]int
	}{
		{0, 1, []int{1, 1, 1}, [][]int{{0}}, [][]int{{0}, {1, 2, 3}}},
		{2, 1, []int{1, 1, 1}, [][]int{{0}}, [][]int{{0}, {1, 2}, {3}}},
		{2, 2, []int{1, 1, 1}, [][]int{{0}, {1, 2}}, [][]int{{0}, {1, 2}, {3}}},
		{4, 2, []int{1, 1, 1}, [][]int{{0}}, [][]int{{0}, {1, 2, 3}}},
		{4, 1, []int{3, 3, 9, 1}, [][]int{{0}}, [][]int{{0}, {1, 2}, {3}, {4}}},
		{1, 2, []int{1, 1, 1}, [][]int{{0}, {1}}, [][]int{{0}, {1}, {2}, {3}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := commits{hold: make(chan struct{})}
			q := c.queue(test.maxSize, test.parallel, succeed)
			q.Add(&job{}, 1)
			synctest.Wait()
			for i, size := range test.sizes {
				q.Add(&job{number: i + 1}, size)
				synctest.Wait()
			}
			if got := fmt.Sprint(c.groups); got != fmt.Sprint(test.begun) {
				t.Errorf("MaxSize %d, Parallel %d, sizes %v: groups %v have begun, want %v",
					test.maxSize, test.parallel, test.sizes, got, test.begun)
			}
			close(c.hold)
			c.running.Wait()
			if got := fmt.Sprint(c.groups); got != fmt.Sprint(test.want) {
				t.Errorf("MaxSize %d, Parallel %d, sizes %v: groups %v, want %v",
					test.maxSize, test.parallel, test.sizes, got, test.want)
			}
		})
	}
}

// TestCancelledCaller: a caller whose context ends gets the cause of the context at once.
// Its item is committed with its group.
func TestCancelledCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := commits{hold: make(chan struct{})}
		q := c.queue(0, 1, succeed)
		q.Add(&job{}, 1)
		synctest.Wait()
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		stays := q.Add(&job{number: 1}, 1)
		if err := q.Add(&job{number: 2}, 1).Wait(ctx); !errors.Is(err, gone) {
			t.Errorf("the caller that left got %v, want %v", err, gone)
		}
		if n := q.Len(); n != 2 {
			t.Errorf("%d items wait, want 2", n)
		}
		close(c.hold)
		if err := stays.Wait(t.Context()); err != nil {
			t.Errorf("the caller that stayed got %v", err)
		}
		c.running.Wait()
		if got, want := fmt.Sprint(c.groups), "[[0] [1 2]]"; got != want {
			t.Errorf("groups %v, want %v", got, want)
		}
	})
}

// TestClosedQueue: when Config.Go fails, the goroutine that is already running still commits
// all groups that wait. Items that are added after this goroutine has ended fail. When Go
// works again, so does the queue.
func TestClosedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c commits
		closed, errClosed := false, errors.New("closed")
		hold := make(chan struct{})
		q := groupcommit.New(groupcommit.Config[*job]{
			MaxSize: 2, Parallel: 2,
			Go: func(run func(context.Context)) error {
				if closed {
					return errClosed
				}
				c.running.Go(func() { run(context.Background()) })
				return nil
			},
			Commit: func(context.Context, []*job) { <-hold },
		})
		groups := []*groupcommit.Group[*job]{q.Add(&job{}, 1)}
		synctest.Wait()
		closed = true
		for range 3 {
			groups = append(groups, q.Add(&job{}, 1))
		}
		close(hold)
		c.running.Wait()
		for i, g := range groups {
			if err := g.Wait(t.Context()); err != nil {
				t.Errorf("item %d, which the running goroutine commits: %v", i, err)
			}
		}
		for range 2 { // the queue still works after items that failed
			if err := q.Add(&job{}, 1).Wait(t.Context()); !errors.Is(err, errClosed) || q.Len() != 0 {
				t.Errorf("an item of a closed queue: %v, want %v; %d items wait, want 0", err, errClosed, q.Len())
			}
		}
		closed = false
		if err := q.Add(&job{}, 1).Wait(t.Context()); err != nil {
			t.Error(err)
		}
		c.running.Wait()
	})
}

// BenchmarkAdd measures the cost of the queue itself: commits do nothing.
func BenchmarkAdd(b *testing.B) {
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var c commits
			q := groupcommit.New(groupcommit.Config[*job]{
				MaxSize: 256, Commit: func(context.Context, []*job) {},
				Go: func(run func(context.Context)) error {
					c.running.Go(func() { run(context.Background()) })
					return nil
				},
			})
			b.ReportAllocs()
			var all sync.WaitGroup
			for caller := range callers {
				all.Go(func() {
					for i := caller; i < b.N; i += callers {
						_ = q.Add(new(job), 1).Wait(b.Context())
					}
				})
			}
			all.Wait()
			c.running.Wait()
		})
	}
}
