package redisstore

import (
	"slices"
	"testing"
	"time"
)

// timetable is a schedule of a few partitions. The test sets its clock.
type timetable struct {
	*testing.T
	*schedule
	parts []*partition
	now   time.Time
}

func newTimetable(t *testing.T, n int) *timetable {
	tt := &timetable{T: t, now: time.UnixMilli(1_700_000_000_000)}
	for i := range n {
		tt.parts = append(tt.parts, newPartition("crawl", i))
	}
	tt.schedule = newSchedule(tt.parts)
	return tt
}

// answer makes a partition report hosts that are due. The argument wait is the reported time
// until there is more to do.
func (tt *timetable) answer(part int, wait time.Duration, hosts ...candidate) {
	for i := range hosts {
		hosts[i].part = tt.parts[part]
	}
	tt.saw(tt.parts[part], report{asked: tt.now, server: 5000, due: hosts, wait: wait})
}

func (tt *timetable) wantLook(idle bool, want ...int) {
	tt.Helper()
	var got []int
	for _, p := range tt.toLook(tt.now, idle) {
		got = append(got, p.number)
	}
	if !slices.Equal(got, want) {
		tt.Errorf("partitions to look at (idle: %t) are %v, want %v", idle, got, want)
	}
}

func (tt *timetable) wantTaken(n int, want ...string) {
	tt.Helper()
	var got []string
	for _, c := range tt.take(n) {
		got = append(got, c.host)
	}
	if !slices.Equal(got, want) {
		tt.Errorf("take returned the hosts %q, want %q", got, want)
	}
}

func (tt *timetable) wantWait(want time.Duration) {
	tt.Helper()
	if got := tt.wait(tt.now); got != want {
		tt.Errorf("wait is %v, want %v", got, want)
	}
}

func TestScheduleAsksOnlyDuePartitions(t *testing.T) {
	tt := newTimetable(t, 3)
	tt.wantWait(0)
	tt.wantLook(false, 0, 1, 2)
	tt.answer(0, 300*time.Millisecond)
	tt.answer(1, 500*time.Millisecond)
	tt.answer(2, time.Hour) // another worker can add to it meanwhile
	tt.wantLook(true)
	tt.wantWait(300 * time.Millisecond)
	tt.now = tt.now.Add(400 * time.Millisecond)
	tt.wantWait(0)
	tt.wantLook(false, 0)
	tt.wake(tt.parts[2])
	tt.wantLook(false, 0, 2)
	tt.answer(0, time.Hour)
	tt.answer(2, time.Hour)
	tt.now = tt.now.Add(100 * time.Millisecond)
	tt.wantLook(false, 1)
	tt.now = tt.now.Add(maxLook)
	tt.wantLook(false, 0, 1, 2)
}

func TestScheduleTakesTheLongestDue(t *testing.T) {
	tt := newTimetable(t, 2)
	tt.wantLook(false, 0, 1)
	tt.answer(0, time.Hour, candidate{host: "b", since: 2}, candidate{host: "d", since: 4})
	tt.answer(1, time.Hour, candidate{host: "a", since: 1}, candidate{host: "c", since: 3})
	if !tt.enough(4, tt.now) || tt.enough(5, tt.now) {
		t.Error("with four hosts, enough(4) is false or enough(5) is true")
	}
	tt.wantWait(0)
	tt.wantTaken(3, "a", "b", "c")
	tt.wantWait(0)
	tt.answer(0, time.Hour, candidate{host: "e", since: 5}) // d is not due any more
	tt.wantTaken(9, "e")
	tt.lent(tt.parts[0], tt.now, 200*time.Millisecond)
	tt.wantWait(200 * time.Millisecond)
	tt.forget()
	tt.wantLook(false, 0, 1)
}

// TestScheduleLeavesOthers: a worker looks at partitions of others only if it has nothing
// else to do, and not often.
func TestScheduleLeavesOthers(t *testing.T) {
	tt := newTimetable(t, 3)
	tt.own([]bool{true, false, false})
	tt.wantLook(false, 0)
	tt.wantLook(true, 0, 1, 2)
	tt.answer(0, 100*time.Millisecond)
	tt.answer(1, 10*time.Millisecond)
	tt.answer(2, 10*time.Millisecond)
	tt.now = tt.now.Add(100 * time.Millisecond)
	tt.wantLook(true, 0)
	tt.own(nil)
	tt.now = tt.now.Add(maxLook)
	tt.wantLook(false, 0, 1, 2)
}

// TestScheduleLeavesHostsToTheirWorker: a host of another worker's partition is taken only
// if it has been due for some time.
func TestScheduleLeavesHostsToTheirWorker(t *testing.T) {
	tt := newTimetable(t, 2) // its server's clock is at 5000 ms
	tt.own([]bool{true, false})
	left := 5000 - headStart.Milliseconds()
	tt.answer(0, time.Second, candidate{host: "own.test", since: 4999})
	tt.answer(1, time.Second, candidate{host: "left.test", since: left}, candidate{host: "new.test", since: left + 1})
	tt.wantTaken(3, "left.test", "own.test")
	tt.own(nil)
	tt.answer(1, time.Second, candidate{host: "new.test", since: left + 1})
	tt.wantTaken(3, "new.test")
}
