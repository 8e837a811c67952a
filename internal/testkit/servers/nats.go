package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATSOptions is the configuration of a NATS server. JetStream is always on.
type NATSOptions struct {
	TLS    bool   // clients must use TLS; see NATSServer.CACert
	Config string // further lines of the configuration file
}

// NATSServer is a running NATS server. Its methods are safe for concurrent use.
type NATSServer struct {
	process
	opt NATSOptions
}

// NATS starts a NATS server that is closed at the end of the test, and returns when the
// server's JetStream answers. If nats-server is not installed, the test is skipped. If
// CRAWLER_TEST_SERVERS is "require", it fails instead.
//
// Messages that JetStream acknowledged survive Kill. A power failure can lose them,
// because the server syncs its files only every two minutes.
func NATS(t TB, opt NATSOptions) *NATSServer {
	t.Helper()
	return started(t, &NATSServer{opt: opt})
}

func (n *NATSServer) begin(ctx context.Context) error {
	path, err := program("nats-server")
	if err != nil {
		return err
	}
	if n.run, err = os.MkdirTemp("", "nats-"); err != nil {
		return err
	}
	config := n.file("nats.conf")
	n.command = func() *exec.Cmd { return exec.Command(path, "-c", config) }
	n.ready, n.stop = n.ping, syscall.SIGTERM
	if n.opt.TLS {
		if err := n.certify(); err != nil {
			return err
		}
	}
	return n.launch(ctx, func() error { return os.WriteFile(config, []byte(n.config()), 0o600) })
}

func (n *NATSServer) config() string {
	text := fmt.Sprintf("listen: %q\nserver_name: %q\njetstream { store_dir: %q }\n", n.Addr(), n.name(),
		n.file("data"))
	if n.opt.TLS {
		text += fmt.Sprintf("tls { cert_file: %q, key_file: %q }\n", n.file(certFile), n.file(keyFile))
	}
	return text + n.opt.Config + "\n"
}

// name returns the server's name. ping compares names, because another server could have
// taken the port.
func (n *NATSServer) name() string { return filepath.Base(n.run) + "-" + strconv.Itoa(n.port) }

// ping returns nil if this server answers and its JetStream works. If the configuration
// requires a password, ping returns nil as soon as a server refuses a client without
// one.
func (n *NATSServer) ping(ctx context.Context) error {
	options := []nats.Option{nats.Timeout(time.Second)}
	if n.opt.TLS {
		options = append(options, nats.RootCAs(n.CACert()))
	}
	client, err := nats.Connect(n.URL(), options...)
	if errors.Is(err, nats.ErrAuthorization) {
		return nil // JetStream starts before the server accepts clients
	}
	if err != nil {
		return err
	}
	defer client.Close()
	if name := client.ConnectedServerName(); name != n.name() {
		return fmt.Errorf("%s is another server, %q", n.Addr(), name)
	}
	stream, err := jetstream.New(client)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = stream.AccountInfo(ctx)
	return err
}

// URL returns the URL that clients connect to.
func (n *NATSServer) URL() string {
	if n.opt.TLS {
		return "tls://" + n.Addr()
	}
	return "nats://" + n.Addr()
}

// CACert returns the path of the server's certificate, in PEM. If the server uses TLS, its
// clients must trust this certificate.
func (n *NATSServer) CACert() string { return n.file(certFile) }
