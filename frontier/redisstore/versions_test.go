package redisstore

import (
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestVersions: of two versions with one number, the first is stored. A lost version can be published again, and the larger
// number wins.
func TestVersions(t *testing.T) {
	t.Parallel()
	s := openStore(t, config(servers.Redis(t, servers.RedisOptions{})))
	s.durable = 200 * time.Millisecond
	add := func(number uint64, text string) bool {
		t.Helper()
		added, err := s.AddVersion(t.Context(), Version{number, text, "h" + text}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return added
	}
	publish := func(number uint64, text string) bool {
		t.Helper()
		done, err := s.PublishVersion(t.Context(), Version{number, text, "h" + text})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	newest := func(want string) {
		t.Helper()
		if got, err := s.NewestVersion(t.Context()); err != nil || got != want {
			t.Fatalf("the newest version is %q, error %v; want %q", got, err, want)
		}
	}
	newest("")
	before := time.Now()
	if !add(1, "a") || time.Since(before) < s.durable {
		t.Error("version 1 was not stored, or not waited for")
	}
	if add(1, "b") || add(3, "c") || !add(1, "a") || !add(2, "d") || add(1, "a") {
		t.Error("a version that does not follow the newest one was stored, or a repeated one was not")
	}
	newest("d")
	if publish(1, "a") || publish(2, "e") || !publish(2, "d") || !publish(5, "f") {
		t.Error("the larger number did not win")
	}
	newest("f")
	if texts, err := s.Versions(t.Context()); err != nil || len(texts) != 3 || texts[2] != "hd" {
		t.Errorf("the history is %v, error %v", texts, err)
	}
	if !publish(KeptVersions+1, "g") {
		t.Error("version 1001 was not stored")
	}
	if texts, err := s.Versions(t.Context()); err != nil || len(texts) != 3 || texts[1] != "" {
		t.Errorf("after version 1001 the history is %v, error %v; want no version 1", texts, err)
	}
}
