// Package kfake runs kfake, the Kafka broker that franz-go has for tests. The broker
// runs in a separate process and has its data in files, so that a test can kill it like
// a real server.
//
// The process runs the same program as the test. For this, TestMain must call Main
// before anything else.
package kfake

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// Environment variables of a process that runs a broker.
const (
	envPort = "CRAWLER_TEST_KFAKE_PORT"
	envDir  = "CRAWLER_TEST_KFAKE_DIR"
	envSASL = "CRAWLER_TEST_KFAKE_PASSWORD"
	envTLS  = "CRAWLER_TEST_KFAKE_TLS"
)

// Options is the configuration of a broker.
type Options struct {
	Password string // of the user "relay", by PLAIN or SCRAM; empty means that clients need none
	TLS      bool   // clients must use TLS; see Trust
}

// Start starts a broker that is closed at the end of the test.
func Start(t servers.TB, opt Options) *servers.KafkaServer {
	t.Helper()
	return servers.Kafka(t, func(port int, dir string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envPort+"="+strconv.Itoa(port), envDir+"="+dir, envSASL+"="+opt.Password, envTLS+"="+strconv.FormatBool(opt.TLS))
		return cmd
	})
}

// Main runs a broker if Start started this process, and then does not return. Otherwise
// it does nothing.
func Main() {
	text := os.Getenv(envPort)
	if text == "" {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "kfake:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs a broker on a port until the process gets SIGTERM.
func serve(text string) error {
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	opt := []kfake.Opt{
		kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(os.Getenv(envDir)), kfake.DefaultNumPartitions(3),
		kfake.WithLogger(kfake.BasicLogger(os.Stderr, kfake.LogLevelWarn)),
	}
	if password := os.Getenv(envSASL); password != "" {
		opt = append(opt, kfake.EnableSASL())
		for _, method := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
			opt = append(opt, kfake.Superuser(method, "relay", password))
		}
	}
	if os.Getenv(envTLS) == "true" {
		opt = append(opt, kfake.TLS(certified()))
	}
	cluster, err := kfake.NewCluster(opt...)
	if err != nil {
		return err
	}
	<-ended
	cluster.Close()
	return nil
}

// Trust returns a TLS configuration for clients of a broker with TLS.
func Trust() *tls.Config {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return &tls.Config{RootCAs: pool}
}

// certified returns a configuration with the certificate for 127.0.0.1 that package
// httptest has. The certificate is the same in each process.
func certified() *tls.Config {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return &tls.Config{Certificates: server.TLS.Certificates}
}
