package servers

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// KafkaServer is a broker of the Kafka protocol in a process of its own. Its
// methods are safe for concurrent use.
type KafkaServer struct {
	process
	port int
	run  string // log, data
}

// StartKafka starts a broker and returns when it accepts connections; ctx bounds
// the start. The caller must call Close. command returns the command of a broker
// that listens on a loopback port and has its data in dir; see package kfake.
func StartKafka(ctx context.Context, command func(port int, dir string) *exec.Cmd) (*KafkaServer, error) {
	run, err := os.MkdirTemp("", "kafka-")
	if err != nil {
		return nil, err
	}
	k := &KafkaServer{run: run}
	k.process = process{
		command: func() *exec.Cmd { return command(k.port, filepath.Join(run, "data")) },
		ready:   k.accepts,
		stop:    syscall.SIGTERM,
		log:     filepath.Join(run, "log"),
	}
	err = startOnFreePort(func(port int) error {
		k.port = port
		return k.start(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// Kafka starts a broker that is closed at the end of the test; see StartKafka.
func Kafka(t TB, command func(port int, dir string) *exec.Cmd) *KafkaServer {
	t.Helper()
	server, err := StartKafka(t.Context(), command)
	return started(t, server, err)
}

func (k *KafkaServer) accepts(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", k.Addr())
	if err != nil {
		return err
	}
	return conn.Close()
}

// Close kills the broker and removes its files. A second Close does nothing.
func (k *KafkaServer) Close() error { return errors.Join(k.Kill(), os.RemoveAll(k.run)) }

// Addr returns the TCP address, "127.0.0.1:port".
func (k *KafkaServer) Addr() string { return loopback(k.port) }
