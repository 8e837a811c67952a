#!/usr/bin/env bash
# Go 1.26.8, package net (resolver in Go): a look-up of a name whose query for IPv4 addresses the
# name server answers with SERVFAIL, and whose query for IPv6 addresses it answers with no record,
# ends with a DNSError that says "no such host", with IsNotFound and without IsTemporary. A program
# that remembers names that do not exist then forgets one that only had a bad moment. With
# Resolver.StrictErrors, or with a look-up for "ip4" alone, the error is the failure.
#
# Seen:
#   ip: no such host, not found true, temporary false
#   ip, strict: server misbehaving, not found false, temporary true
#   ip4: server misbehaving, not found false, temporary true
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -r "$dir"' EXIT
cd "$dir"
cat >go.mod <<'GO'
module finding

go 1.26.8
GO
cat >main.go <<'GO'
package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/net/dns/dnsmessage"
)

// serve answers queries for IPv4 addresses with SERVFAIL, and others with no record.
func serve(server net.PacketConn) {
	buffer := make([]byte, 512)
	for {
		n, client, err := server.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buffer[:n]) != nil {
			continue
		}
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		if m.Questions[0].Type == dnsmessage.TypeA {
			m.RCode = dnsmessage.RCodeServerFailure
		}
		packed, _ := m.Pack()
		_, _ = server.WriteTo(packed, client)
	}
}

func main() {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go serve(server)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server.LocalAddr().String())
	}
	for _, c := range []struct {
		what, network string
		strict        bool
	}{{"ip", "ip", false}, {"ip, strict", "ip", true}, {"ip4", "ip4", false}} {
		resolver := net.Resolver{PreferGo: true, Dial: dial, StrictErrors: c.strict}
		_, err := resolver.LookupNetIP(context.Background(), c.network, "host.test.")
		var fault *net.DNSError
		if !errors.As(err, &fault) {
			panic(err)
		}
		fmt.Printf("%s: %s, not found %t, temporary %t\n", c.what, fault.Err, fault.IsNotFound, fault.IsTemporary)
	}
}
GO
export GOTOOLCHAIN=go1.26.8
go get golang.org/x/net@v0.62.0 2>/dev/null
go mod tidy 2>/dev/null
seen=$(go run .)
echo "$seen"
diff <(echo "$seen") - <<'OUT'
ip: no such host, not found true, temporary false
ip, strict: server misbehaving, not found false, temporary true
ip4: server misbehaving, not found false, temporary true
OUT
