package redisstore

import (
	"context"
)

// Note stores text under a name, unless the crawl has a note of this name. The caller bounds the number and the
// length of notes.
func (s *Store) Note(ctx context.Context, name, text string) error {
	return s.classify(ctx, s.write(ctx, "HSETNX", s.cfg.notesKey(), name, text).Err())
}

// Notes returns all notes by name.
func (s *Store) Notes(ctx context.Context) (map[string]string, error) {
	notes, err := s.client.HGetAll(ctx, s.cfg.notesKey()).Result()
	return notes, s.classify(ctx, err)
}
