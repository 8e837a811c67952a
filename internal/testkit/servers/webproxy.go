package servers

import (
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
)

// WebProxyServer is a running HTTP proxy. Its methods are safe for concurrent use.
type WebProxyServer struct {
	process
	program string
}

// WebProxy starts an HTTP proxy that is closed at the end of the test: "squid" or "tinyproxy", with the configuration that
// its Debian package ships, except for the port and the files. As shipped, squid opens tunnels to port 443 only. If the
// program is not installed, the test is skipped. If CRAWLER_TEST_SERVERS is "require", it fails instead.
func WebProxy(t TB, program string) *WebProxyServer {
	t.Helper()
	return started(t, &WebProxyServer{program: program})
}

// URL returns the URL of the proxy.
func (p *WebProxyServer) URL() string { return "http://" + p.Addr() }

// These lines of the shipped configurations are replaced.
var ownLines = map[string]*regexp.Regexp{
	"squid":     regexp.MustCompile(`(?m)^(http_port|coredump_dir|include) .*$`),
	"tinyproxy": regexp.MustCompile(`(?m)^(Port|User|Group|LogFile|PidFile) .*$`),
}

func (p *WebProxyServer) begin(ctx context.Context) error {
	path, err := program(p.program)
	if err != nil { // Debian has squid where only root's PATH leads
		path, err = program("/usr/sbin/" + p.program)
	}
	if err != nil {
		return err
	}
	if p.run, err = os.MkdirTemp("", p.program+"-"); err != nil {
		return err
	}
	shipped, err := os.ReadFile("/etc/" + p.program + "/" + p.program + ".conf")
	if err != nil {
		return err
	}
	config := p.file("conf")
	p.ready, p.stop = func(ctx context.Context) error { return accepts(ctx, p.Addr()) }, syscall.SIGTERM
	arguments := []string{"-d", "-c", config}
	if p.program == "squid" {
		arguments = []string{"-N", "-f", config}
	}
	p.command = func() *exec.Cmd { return exec.Command(path, arguments...) }
	return p.launch(ctx, func() error {
		port := strconv.Itoa(p.port)
		own := "\nPort " + port + "\nListen 127.0.0.1\n"
		if p.program == "squid" {
			own = "\nhttp_port 127.0.0.1:" + port + "\npid_filename none\naccess_log none\ncache_log /dev/null\n" +
				"icp_port 0\npinger_enable off\nshutdown_lifetime 0 seconds\n"
		}
		return os.WriteFile(config, append(ownLines[p.program].ReplaceAll(shipped, nil), own...), 0o600)
	})
}

// accepts returns nil if a server accepts connections.
func accepts(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		err = conn.Close()
	}
	return err
}
