#!/usr/bin/env bash
# nats-server v2.15.2 with nats.go v1.55.0: after a restart, a work queue knows no Nats-Msg-Id of
# messages that were consumed, although its duplicate window is an hour and the store is a file.
# A message that is published again is stored, and worked on, a second time.
#
# The server rebuilds the window from the messages that the stream still holds. A work queue
# removes a message as soon as it is acknowledged, so after the restart the window is empty.
# Before the restart the same message is dropped.
#
# Seen:
#   again: duplicate true
#   again after a restart: duplicate false
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

func start() (*server.Server, jetstream.JetStream) {
	s := must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: "store", NoSigs: true}))
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		panic("the server did not start")
	}
	return s, must(jetstream.New(must(nats.Connect(s.ClientURL()))))
}

func main() {
	ctx := context.Background()
	s, js := start()
	must(js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "work", Subjects: []string{"work"}, Retention: jetstream.WorkQueuePolicy, Duplicates: time.Hour,
	}))
	consumer := must(js.CreateConsumer(ctx, "work", jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy}))
	publish := func() bool { return must(js.Publish(ctx, "work", nil, jetstream.WithMsgID("id"))).Duplicate }
	publish()
	if err := must(consumer.Next()).DoubleAck(ctx); err != nil {
		panic(err)
	}
	fmt.Println("again: duplicate", publish())
	s.Shutdown()
	s.WaitForShutdown()
	s, js = start()
	fmt.Println("again after a restart: duplicate", publish())
	s.Shutdown()
	s.WaitForShutdown()
}
GO
go get github.com/nats-io/nats-server/v2@v2.15.2 github.com/nats-io/nats.go@v1.55.0 2>/dev/null
go mod tidy 2>/dev/null
seen=$(go run .)
echo "$seen"
diff <(echo "$seen") - <<'OUT'
again: duplicate true
again after a restart: duplicate false
OUT
