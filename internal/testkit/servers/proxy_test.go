package servers_test

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// dialProxy returns a client that connects to a proxy.
func dialProxy(t *testing.T, proxy *servers.ProxyServer, protocol int) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), Protocol: protocol, MaxRetries: -1, ReadTimeout: 10 * time.Second})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// await waits until the channel done is closed, and fails the test after 20 s.
func await(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the proxy dropped no reply within 20s")
	}
}

// matchNth returns a function that matches the nth of the requests that contain name,
// counted from 1.
func matchNth(name string, n int) func([]byte) bool {
	return func(request []byte) bool {
		if bytes.Contains(request, []byte(name)) {
			n--
		}
		return n == 0 && bytes.Contains(request, []byte(name))
	}
}

// TestDropReply checks that the server executes the command whose reply is lost, and
// that the client gets all other replies.
func TestDropReply(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	for _, protocol := range []int{2, 3} {
		t.Run("resp="+strconv.Itoa(protocol), func(t *testing.T) {
			proxy := servers.Proxy(t, server.Addr())
			client := dialProxy(t, proxy, protocol)
			must(t, server.Client().FlushAll(t.Context()).Err())
			dropped := proxy.DropReply(matchNth("counter", 2))
			var failed []int
			for i := range 4 {
				if err := client.Incr(t.Context(), "counter").Err(); err != nil {
					failed = append(failed, i)
				}
			}
			await(t, dropped)
			if len(failed) != 1 || failed[0] != 1 {
				t.Errorf("calls with the indices %v failed, want only index 1", failed)
			}
			if n, err := server.Client().Get(t.Context(), "counter").Int(); err != nil || n != 4 {
				t.Errorf("after 4 calls, the counter is %d (%v), want 4", n, err)
			}
		})
	}
}

// TestDropReplyInPipeline checks that replies of all types arrive if they come before
// the lost one. Later replies are lost with the connection.
func TestDropReplyInPipeline(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	for _, protocol := range []int{2, 3} {
		t.Run("resp="+strconv.Itoa(protocol), func(t *testing.T) {
			proxy := servers.Proxy(t, server.Addr())
			client := dialProxy(t, proxy, protocol)
			ctx := t.Context()
			must(t, server.Client().FlushAll(ctx).Err())
			value := strings.Repeat("line\r\n", 20_000)
			dropped := proxy.DropReply(matchNth("lost", 1))
			commands, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, "long", value, 0)
				p.Get(ctx, "long")
				p.Get(ctx, "absent")
				p.HSet(ctx, "hash", "field", "value")
				p.HGetAll(ctx, "hash")
				p.Do(ctx, "COMMAND", "INFO", "get", "set")
				p.Do(ctx, "NO-SUCH-COMMAND")
				p.Set(ctx, "lost", "value", 0)
				p.Set(ctx, "after", "value", 0)
				return nil
			})
			await(t, dropped)
			if err == nil {
				t.Error("the pipeline returns no error, although a reply was lost")
			}
			// The client sets the same error in all commands of the pipeline, but the
			// values show which commands were answered.
			got := []any{
				commands[0].(*redis.StatusCmd).Val(), commands[1].(*redis.StringCmd).Val() == value,
				commands[3].(*redis.IntCmd).Val(), commands[4].(*redis.MapStringStringCmd).Val()["field"],
				len(commands[5].(*redis.Cmd).Val().([]any)), strings.HasPrefix(commands[6].Err().Error(), "ERR unknown"),
				commands[7].(*redis.StatusCmd).Val(), commands[8].(*redis.StatusCmd).Val(),
			}
			want := []any{"OK", true, int64(1), "value", 2, true, "", ""}
			if !slices.Equal(got, want) {
				t.Errorf("answers are %v, want %v", got, want)
			}
			if got, err := server.Client().Get(ctx, "lost").Result(); got != "value" {
				t.Errorf("the command whose reply was lost has set %q (%v), want \"value\"", got, err)
			}
		})
	}
}

// TestProxyBreaksConnections checks that clients get errors between Down and Up, and
// when the server is down.
func TestProxyBreaksConnections(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	proxy := servers.Proxy(t, server.Addr())
	client := dialProxy(t, proxy, 3)
	must(t, client.Ping(t.Context()).Err())
	proxy.Down()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("Ping through a proxy that is down: no error")
	}
	proxy.Up()
	must(t, client.Ping(t.Context()).Err())
	must(t, server.Kill())
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("Ping through a proxy whose server is down: no error")
	}
}
