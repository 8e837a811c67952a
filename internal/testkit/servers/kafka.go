package servers

import (
	"context"
	"net"
	"os"
	"os/exec"
	"syscall"
)

// KafkaServer is a running broker of the Kafka protocol. Its methods are safe for
// concurrent use.
type KafkaServer struct {
	process
	broker func(port int, dir string) *exec.Cmd
}

// Kafka starts a broker that is closed at the end of the test, and returns when the
// broker accepts connections. The function command returns the command of a broker that
// listens on the given loopback port and has its data in dir. See package kfake.
func Kafka(t TB, command func(port int, dir string) *exec.Cmd) *KafkaServer {
	t.Helper()
	return started(t, &KafkaServer{broker: command})
}

func (k *KafkaServer) begin(ctx context.Context) (err error) {
	k.command = func() *exec.Cmd { return k.broker(k.port, k.file("data")) }
	k.ready, k.stop = k.accepts, syscall.SIGTERM
	if k.run, err = os.MkdirTemp("", "kafka-"); err != nil {
		return err
	}
	return k.launch(ctx, func() error { return nil })
}

func (k *KafkaServer) accepts(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", k.Addr())
	if err != nil {
		return err
	}
	return conn.Close()
}
