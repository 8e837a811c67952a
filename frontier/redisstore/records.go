package redisstore

import (
	"errors"
	"sync"

	"github.com/bloomfrontier/crawler/frontier"
)

// recordWriter writes records to a worker's output, one at a time, and syncs
// them in groups: while one group is on its way to the disk, the next gathers.
type recordWriter struct {
	mu      sync.Mutex
	waiting []*recordJob
	turn    sync.Mutex // held to write a group
}

// recordJob is what one completion writes.
type recordJob struct {
	write []func() error // each is called once
	sync  bool
	done  bool
	err   error
}

// run returns when a job is written, and synced if it asks for that. When one of
// its functions fails the rest of them is not called.
func (w *recordWriter) run(output frontier.Output, job *recordJob) error {
	w.mu.Lock()
	w.waiting = append(w.waiting, job)
	w.mu.Unlock()
	w.turn.Lock()
	defer w.turn.Unlock()
	if job.done { // another caller's group had it
		return job.err
	}
	w.mu.Lock()
	group := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	needed := false
	for _, job := range group {
		for _, write := range job.write {
			if job.err = write(); job.err != nil {
				break
			}
		}
		needed = needed || job.sync && job.err == nil
	}
	var synced error
	if needed {
		_, synced = output.Sync()
	}
	for _, job := range group {
		if job.sync {
			job.err = errors.Join(job.err, synced)
		}
		job.done = true
	}
	return job.err
}
