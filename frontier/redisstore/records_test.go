package redisstore

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
)

// slowOutput is an output whose Sync takes as long as the test wants.
type slowOutput struct {
	began, end chan struct{} // each Sync sends to began and receives from end
	syncs      int
	err        error
}

func (o *slowOutput) Sync() (frontier.Position, error) {
	o.syncs++
	o.began <- struct{}{}
	<-o.end
	return nil, o.err
}

// TestRecordsGather: records that are written during a sync are synced
// together, and an error of one does not affect the others.
func TestRecordsGather(t *testing.T) {
	const jobs = 20
	s, out := newStore(Config{}), &slowOutput{began: make(chan struct{}), end: make(chan struct{})}
	defer s.background.stop()
	s.output = out
	writing, written := sync.Mutex{}, 0
	errs := make([]error, jobs)
	errRecord := errors.New("a record that cannot be written")
	var running sync.WaitGroup
	start := func(i int) {
		job := &recordJob{sync: true, write: []func() error{func() error {
			if !writing.TryLock() {
				t.Error("two records are written at once")
			}
			defer writing.Unlock()
			if written++; i == 7 {
				return errRecord
			}
			return nil
		}}}
		running.Go(func() { errs[i] = s.writeRecord(job) })
	}
	start(0)
	<-out.began
	for i := 1; i < jobs; i++ {
		start(i)
	}
	for s.records.Len() < jobs-1 {
		runtime.Gosched()
	}
	out.end <- struct{}{}
	<-out.began
	out.end <- struct{}{}
	running.Wait()
	if out.syncs != 2 || written != jobs {
		t.Errorf("%d records written with %d syncs, want %d with 2", written, out.syncs, jobs)
	}
	for i, err := range errs {
		if want := i == 7; errors.Is(err, errRecord) != want || !want && err != nil {
			t.Errorf("job %d: error %v, want an error only for job 7", i, err)
		}
	}
}

// TestRecordsFailTogether: if the output cannot be synced, the jobs that wait
// for the sync fail, and no others.
func TestRecordsFailTogether(t *testing.T) {
	out := &slowOutput{began: make(chan struct{}, 2), end: make(chan struct{}, 2), err: errors.New("disk full")}
	out.end <- struct{}{}
	synced, unsynced := &recordJob{sync: true}, &recordJob{write: []func() error{func() error { return nil }}}
	s := &Store{output: out}
	s.writeRecords([]*recordJob{synced, unsynced})
	if !errors.Is(synced.err, out.err) || unsynced.err != nil {
		t.Errorf("a job whose sync fails: %v, want %v; one that needs no sync: %v, want nil", synced.err, out.err, unsynced.err)
	}
	if s.writeRecords([]*recordJob{unsynced}); unsynced.err != nil || out.syncs != 1 {
		t.Errorf("a job that needs no sync: %v after %d syncs, want nil after 1", unsynced.err, out.syncs)
	}
}
