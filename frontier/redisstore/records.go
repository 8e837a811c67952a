package redisstore

import (
	"context"
	"errors"

	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/groupcommit"
)

// recordJob writes the records of one call of Complete.
type recordJob struct {
	write []func() error   // each is called at most once
	ends  []exact.Finished // of exact items, stored by the sync
	sync  bool             // sync the output afterwards
	bytes int64            // that the functions hold and write, about
	err   error            // of a write or of the sync
}

// maxRecordJobs is how many jobs can share one sync. A job counts as one more for each
// recordBytes that it holds.
const (
	maxRecordJobs = 256
	recordBytes   = 32 << 10
)

// newRecordQueue returns a queue that writes records to the output, one at a
// time, and syncs those of a group together.
func (s *Store) newRecordQueue() *groupcommit.Queue[*recordJob] {
	return groupcommit.New(groupcommit.Config[*recordJob]{
		MaxSize: maxRecordJobs, Go: s.spawn,
		Commit: func(_ context.Context, jobs []*recordJob) { s.writeRecords(jobs) },
	})
}

// writeRecords runs the jobs of a group and sets their errors. If a function of a job fails,
// the job's other functions are skipped.
func (s *Store) writeRecords(jobs []*recordJob) {
	needed := false
	var ends []exact.Finished
	for _, job := range jobs {
		for _, write := range job.write {
			if job.err = write(); job.err != nil {
				break
			}
		}
		if job.err == nil {
			needed = needed || job.sync
			ends = append(ends, job.ends...)
		}
	}
	if !needed {
		return
	}
	if len(ends) > 0 {
		s.cfg.Exact.End(ends)
	}
	_, err := s.output.Sync()
	for _, job := range jobs {
		if job.sync {
			job.err = errors.Join(job.err, err)
		}
	}
}

// writeRecord runs a job and waits until it is written, and synced if job.sync is set. It takes
// no context: the job's functions use data of the caller, so the caller must wait for them.
func (s *Store) writeRecord(job *recordJob) error {
	if err := s.records.Add(job, 1+int(job.bytes/recordBytes)).Wait(context.Background()); err != nil {
		return err
	}
	return job.err
}
