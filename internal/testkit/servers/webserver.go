package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// WebServer is a running web server, or an HTTP cache before one. Its methods are safe for concurrent use.
type WebServer struct {
	process
	program, of string
}

// Nginx starts an nginx that serves the files of a folder, compressed for clients that accept it, until the end of the test.
// If the program is not installed, the test is skipped. If CRAWLER_TEST_SERVERS is "require", it fails instead.
func Nginx(t TB, folder string) *WebServer {
	t.Helper()
	return started(t, &WebServer{program: "nginx", of: folder})
}

// Varnish starts a Varnish before the server at an address, until the end of the test. It has an answer without
// Cache-Control for one second, and asks the server conditionally after that. Skips are as those of Nginx.
func Varnish(t TB, backend string) *WebServer {
	t.Helper()
	return started(t, &WebServer{program: "varnishd", of: backend})
}

const (
	nginxConf = `daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
	access_log off; gzip on; gzip_min_length 1;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	types { text/html html; text/plain txt; }
	server { listen 127.0.0.1:%[2]d; root %[3]s; index index.html; }
}
`
	varnishConf = `vcl 4.1;
backend default { .host = "%s"; .port = "%s"; }
`
)

func (w *WebServer) begin(ctx context.Context) error {
	path, err := program("/usr/sbin/" + w.program) // where only root's PATH leads
	if err != nil {
		return err
	}
	if w.run, err = os.MkdirTemp("", w.program+"-"); err != nil {
		return err
	}
	config := w.file("conf")
	w.ready, w.stop = func(ctx context.Context) error { return accepts(ctx, w.Addr()) }, syscall.SIGTERM
	w.command = func() *exec.Cmd {
		if w.program == "nginx" {
			return exec.Command(path, "-c", config, "-e", "stderr")
		}
		return exec.Command(path, "-F", "-j", "none", "-n", w.file("work"), "-a", w.Addr(), "-f", config, "-s", "malloc,16m",
			"-p", "default_ttl=1", "-p", "default_grace=0", "-p", "default_keep=3600")
	}
	return w.launch(ctx, func() error {
		text := fmt.Sprintf(nginxConf, w.run, w.port, w.of)
		if w.program != "nginx" {
			host, port, _ := strings.Cut(w.of, ":")
			text = fmt.Sprintf(varnishConf, host, port)
		}
		return os.WriteFile(config, []byte(text), 0o600)
	})
}
