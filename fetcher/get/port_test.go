package get

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
)

// TestBadPortsAreRefused: a URL with a bad port is refused, however the URL is written, and
// Request.Started is not called. URLs with the web's ports and with high ports are requested.
func TestBadPortsAreRefused(t *testing.T) {
	t.Parallel()
	asked := 0
	network := fake(func(*http.Request) (*http.Response, error) { asked++; return nil, errors.New("network") })
	c := client(t, Config{Transport: network})
	refuses := func(c *Client, url string) bool {
		t.Helper()
		before, started := asked, 0
		_, err := c.Get(t.Context(), Request{URL: url, Started: func() { started++ }})
		port, refused := errors.AsType[*PortError](err)
		if refused == (asked > before) || refused == (started > 0) {
			t.Errorf("%s: error %v, %d requests, %d calls of Started; want either a *PortError or the others",
				url, err, asked-before, started)
		}
		if refused && !strings.Contains(err.Error(), fmt.Sprintf("--allow-port %d", port.Port)) {
			t.Errorf("%s: %v does not name the flag", url, err)
		}
		if refused && Classify(err) != (Fault{Outcome: frontier.Address}) {
			t.Errorf("Classify(%v) = %+v, want the outcome Address", err, Classify(err))
		}
		return refused
	}
	for _, port := range []string{"0", "1", "7", "22", "25", "00025", "110", "143", "587", "2049", "5061", "6000", "6379", "6566", "6665", "6669", "6679", "6697", "10080"} {
		for _, url := range []string{"http://127.0.0.1:" + port + "/", "https://[::1]:" + port, "http://h.test:" + port + "?q", "http://h.test:" + port + "//x", "http://u:p@h.test:" + port + "/"} {
			if !refuses(c, url) {
				t.Errorf("%s is requested", url)
			}
		}
	}
	for _, url := range []string{"http://h.test/", "https://h.test/", "http://h.test:80/", "http://h.test:443/", "http://h.test:81/", "http://h.test:8080/", "http://h.test:6380/", "http://h.test:6670/", "http://[::1]:49152/", "http://h.test:65535/"} {
		if refuses(c, url) {
			t.Errorf("%s is refused", url)
		}
	}
	c = client(t, Config{Transport: network, AllowPorts: []uint16{25, 6379}})
	if refuses(c, "http://h.test:25/") || refuses(c, "http://h.test:6379/") || !refuses(c, "http://h.test:110/") {
		t.Error("with AllowPorts 25 and 6379, one of them is refused or port 110 is requested")
	}
	if len(badPorts) != 83+1 {
		t.Errorf("%d bad ports, want 84: the 83 of the Fetch standard and one more", len(badPorts))
	}
}

// TestPortIsNotDialled: a server on a bad port gets no connection.
func TestPortIsNotDialled(t *testing.T) {
	t.Parallel()
	var l net.Listener
	var err error
	for _, port := range []string{"10080", "6566", "4190", "6697"} { // other programs may use some of them
		if l, err = net.Listen("tcp", "127.0.0.1:"+port); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String() + "/"
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	s := http.Server{Handler: page("here"), ErrorLog: discard}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	_, err = client(t, Config{}).Get(t.Context(), Request{URL: url})
	if _, refused := errors.AsType[*PortError](err); !refused {
		t.Errorf("Get: %v, want a *PortError", err)
	}
	r := mustGet(t, client(t, Config{AllowPorts: []uint16{port}}), Request{URL: url})
	if string(r.Body) != "here" {
		t.Errorf("with AllowPorts: body %q, want \"here\"", r.Body)
	}
	r.Release()
}
