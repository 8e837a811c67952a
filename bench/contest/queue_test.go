package contest

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestQueueWithDelay checks that each page is handed out once, and that the delay of a
// host is kept between its pages. It also checks that take returns false to all workers
// when no page is left.
func TestQueueWithDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = time.Second
		q := newQueue([]string{"http://a.test/", "http://b.test/", "http://a.test/"}, delay)
		links := map[string][]string{
			"http://a.test/":  {"http://a.test/1", "http://a.test/2", "http://b.test/", "http://c.test/"},
			"http://b.test/":  {"http://a.test/1", "http://b.test/1"},
			"http://a.test/2": {"http://b.test/2"},
		}
		asked, got := make(map[string]time.Time), make(chan string, 100)
		for range 3 {
			go func() {
				for {
					page, ok := q.take()
					if !ok {
						got <- ""
						return
					}
					got <- page
					time.Sleep(300 * time.Millisecond)
					q.put(page, links[page])
				}
			}()
		}
		seen := make(map[string]bool)
		for ended := 0; ended < 3; {
			page := <-got
			if page == "" {
				ended++
				continue
			}
			host := hostOf(page)
			if last, before := asked[host], !asked[host].IsZero(); before && time.Since(last) < delay {
				t.Errorf("%s is handed out %v after another page of its host, want %v or more", page, time.Since(last), delay)
			}
			if seen[page] {
				t.Errorf("%s is handed out twice", page)
			}
			asked[host], seen[page] = time.Now(), true
		}
		if len(seen) != 7 {
			t.Errorf("%d pages, want 7", len(seen))
		}
		q = newQueue([]string{"http://a.test/"}, delay)
		q.close()
		if page, ok := q.take(); ok {
			t.Errorf("take of a closed queue = %s, want none", page)
		}
	})
}

// TestQueueWithoutDelay checks that several pages of a host are handed out at once if
// there is no delay.
func TestQueueWithoutDelay(t *testing.T) {
	q := newQueue([]string{"http://a.test/", "http://a.test/1", "http://a.test/"}, 0)
	first, _ := q.take()
	second, ok := q.take()
	if !ok || first == second {
		t.Errorf("took %q and %q (%t), want two different pages", first, second, ok)
	}
	q.put(first, []string{second})
	q.put(second, []string{first, "http://b.test/"})
	if third, ok := q.take(); !ok || third != "http://b.test/" {
		t.Errorf("took %q (%t), want http://b.test/", third, ok)
	}
	q.put("http://b.test/", nil)
	if page, ok := q.take(); ok {
		t.Errorf("take of an empty queue = %s, want none", page)
	}
}
