#!/usr/bin/env bash
# nats-server v2.15.2 with nats.go v1.55.0: a stream that also has a source gets no duplicate
# window, unless the window is set. A message that is published to it twice with one Nats-Msg-Id
# is stored twice. A stream without sources gets a window of two minutes for the same
# configuration, and drops the second one.
#
# So "deduplicated by Nats-Msg-Id" ends without a word when a stream gets its first source.
# CreateStream succeeds, and the configuration that it returns shows the window of 0.
#
# Seen:
#   own     window 2m0s, messages 1
#   sourced window 0s, messages 2
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -r "$dir"' EXIT
cd "$dir"
cat >go.mod <<'GO'
module finding

go 1.26
GO
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	ctx := context.Background()
	s := must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: "store", NoSigs: true}))
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		panic("the server did not start")
	}
	js := must(jetstream.New(must(nats.Connect(s.ClientURL()))))
	must(js.CreateStream(ctx, jetstream.StreamConfig{Name: "other", Subjects: []string{"other"}}))
	for _, c := range []jetstream.StreamConfig{
		{Name: "own", Subjects: []string{"own"}},
		{Name: "sourced", Subjects: []string{"sourced"}, Sources: []*jetstream.StreamSource{{Name: "other"}}},
	} {
		stream := must(js.CreateStream(ctx, c))
		for range 2 {
			must(js.Publish(ctx, c.Name, nil, jetstream.WithMsgID("same")))
		}
		info := must(stream.Info(ctx))
		fmt.Printf("%-7s window %v, messages %d\n", c.Name, info.Config.Duplicates, info.State.Msgs)
	}
	s.Shutdown()
	s.WaitForShutdown()
}
GO
go get github.com/nats-io/nats-server/v2@v2.15.2 github.com/nats-io/nats.go@v1.55.0 2>/dev/null
go mod tidy 2>/dev/null
seen=$(go run .)
echo "$seen"
diff <(echo "$seen") - <<'OUT'
own     window 2m0s, messages 1
sourced window 0s, messages 2
OUT
