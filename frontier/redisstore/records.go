package redisstore

import (
	"context"
	"errors"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/groupcommit"
)

// recordJob is the records of one completion.
type recordJob struct {
	write []func() error // each is called once
	sync  bool
	err   error // of a write or of the sync
}

// maxRecordJobs is how many jobs share one sync.
const maxRecordJobs = 256

// newRecordQueue returns a queue that writes records to the output, one at a
// time, and syncs those of a group together.
func (s *Store) newRecordQueue() *groupcommit.Queue[*recordJob] {
	return groupcommit.New(groupcommit.Config[*recordJob]{
		MaxSize: maxRecordJobs, Go: s.spawn,
		Commit: func(_ context.Context, jobs []*recordJob) { writeRecords(s.output, jobs) },
	})
}

// writeRecords runs the jobs of a group. If one of a job's functions fails, it skips the rest of
// them.
func writeRecords(output frontier.Output, jobs []*recordJob) {
	needed := false
	for _, job := range jobs {
		for _, write := range job.write {
			if job.err = write(); job.err != nil {
				break
			}
		}
		needed = needed || job.sync && job.err == nil
	}
	if !needed {
		return
	}
	_, err := output.Sync()
	for _, job := range jobs {
		if job.sync {
			job.err = errors.Join(job.err, err)
		}
	}
}

// writeRecord returns when a job is written, and synced if it asks for that. It does not return
// earlier, because the functions use what their caller holds.
func (s *Store) writeRecord(job *recordJob) error {
	if err := s.records.Add(job, 1).Wait(context.Background()); err != nil {
		return err
	}
	return job.err
}
