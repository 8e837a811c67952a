package redisstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestRebuildingProcess is a process that TestKilledRebuild kills. It begins a rebuild that waits for
// records for ever.
func TestRebuildingProcess(t *testing.T) {
	url := os.Getenv("REBUILD_OF")
	if url == "" {
		t.Skip("a helper of TestKilledRebuild")
	}
	at, err := ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Rebuild(t.Context(), Config{Redis: at, Name: "test"}, func(func(Ended, error) bool) {
		fmt.Println("rebuilding")
		select {}
	})
	t.Fatal(err)
}

// TestKilledRebuild kills a rebuild in the middle, as the kernel does when memory is short. Although
// the process still counts as a live worker, the next rebuild begins at once.
func TestKilledRebuild(t *testing.T) {
	t.Parallel()
	if machine() == "" {
		t.Skip("this system has no id")
	}
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	cfg.Name = "test"
	s := openStore(t, cfg)
	all, done := variety(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	killed := exec.Command(os.Args[0], "-test.run=^TestRebuildingProcess$")
	killed.Env = append(os.Environ(), "REBUILD_OF=redis://"+server.Addr())
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = killed.Process.Kill()
	_ = killed.Wait()
	if line != "rebuilding\n" {
		t.Fatalf("the other process printed %q (%v)", line, err)
	}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, frontier.ErrFilterLost) {
		t.Fatalf("Open after the kill = %v, want %v", err, frontier.ErrFilterLost)
	}
	// Its last heartbeat seems to be of the next hour, so a rebuild that waits until it counts as dead waits an hour.
	heard, err := server.Client().ZRange(t.Context(), cfg.heardKey(), 0, -1).Result()
	if err != nil || len(heard) != 1 {
		t.Fatalf("workers with heartbeats: %q, %v, want the dead one", heard, err)
	}
	later := redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: heard[0]}
	if err := server.Client().ZAdd(t.Context(), cfg.heardKey(), later).Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	made, err := Rebuild(ctx, cfg, recordsOf(done))
	if err != nil || made.URLs == 0 {
		t.Fatalf("Rebuild after the kill = %+v, %v", made, err)
	}
	s = openStore(t, cfg)
	for _, v := range mustAdd(t, s, all) {
		if v.Answer == frontier.Added {
			t.Error("a URL is new after the rebuild")
		}
	}
}

// TestOthersOfOtherMachines: a worker of another machine that sends no more heartbeats counts as dead
// after beatLimit, and the caller waits for that. A worker that sends heartbeats is named.
func TestOthersOfOtherMachines(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	s := openStore(t, config(server))
	admin := server.Client()
	now := admin.Time(t.Context()).Val().UnixMilli()
	admin.HSet(t.Context(), s.cfg.workersKey(), "77", `{"name":"away","machine":"other","pid":1}`)
	heard := func(at int64) {
		if err := admin.Do(t.Context(), "ZADD", s.cfg.heardKey(), at, "77").Err(); err != nil {
			t.Fatal(err)
		}
	}
	heard(now - (beatLimit - 2*time.Second).Milliseconds())
	if names, err := s.others(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("others = %q, %v, want none", names, err)
	}
	heard(admin.Time(t.Context()).Val().UnixMilli())
	beating, stop := context.WithCancel(t.Context())
	var beats sync.WaitGroup
	beats.Go(func() {
		for sleep(beating, time.Second/2) == nil {
			admin.Do(beating, "ZADD", s.cfg.heardKey(), admin.Time(beating).Val().UnixMilli(), "77")
		}
	})
	defer beats.Wait()
	defer stop()
	if names, err := s.others(t.Context()); err != nil || len(names) != 1 || names[0] != "away" {
		t.Errorf("others = %q, %v, want the worker that sends heartbeats", names, err)
	}
}
