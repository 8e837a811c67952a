package testweb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestLatenessOfHosts checks that the latencies of hosts have the configured mean and
// spread. Webs with the same seed must have the same latencies.
func TestLatenessOfHosts(t *testing.T) {
	t.Logf("replay with -seed=%d", *seed)
	const hosts, mean, spread = 20_000, 300 * time.Millisecond, 0.8
	cfg := Config{Seed: *seed, Hosts: hosts, Pages: hosts, Latency: mean, LatencySpread: spread}
	w, again := newWeb(t, cfg), newWeb(t, cfg)
	var sum, logs, squares float64
	for host := range hosts {
		late := w.lateness(hostName(host))
		if late != again.lateness(hostName(host)) {
			t.Fatalf("latency of host %d is %v, and %v in a web with the same seed", host, late, again.lateness(hostName(host)))
		}
		l := math.Log(late.Seconds())
		sum, logs, squares = sum+late.Seconds(), logs+l, squares+l*l
	}
	// The tolerances are five standard errors. The standard error of the mean is
	// 0.95·mean/√n, and that of the spread is spread/√(2n).
	if got := sum / hosts; math.Abs(got-mean.Seconds()) > 5*0.95*mean.Seconds()/math.Sqrt(hosts) {
		t.Errorf("mean latency %.4f s, want about %v", got, mean)
	}
	deviation := math.Sqrt(squares/hosts - (logs/hosts)*(logs/hosts))
	if math.Abs(deviation-spread) > 5*spread/math.Sqrt(2*hosts) {
		t.Errorf("spread of latencies %.4f, want about %v", deviation, spread)
	}
	cfg.LatencySpread = 0
	if late := newWeb(t, cfg).lateness(hostName(7)); late != mean {
		t.Errorf("without a spread: latency %v, want %v", late, mean)
	}
	for _, name := range []string{"corners.test", "nowhere.example", deadName(0)} {
		if late := w.lateness(name); late != 0 {
			t.Errorf("latency of %s is %v, want 0", name, late)
		}
	}
}

// TestLateAnswers checks that the pages and the robots.txt of a host have its latency.
func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb(t, Config{Seed: *seed, Latency: 300 * time.Millisecond, LatencySpread: 0.8})
		for _, path := range []string{"/", "/robots.txt", "/nothing"} {
			began := time.Now()
			fetch(t, w, "http://"+hostName(3)+path)
			if took, want := time.Since(began), w.lateness(hostName(3)); took != want {
				t.Errorf("%s took %v, want %v", path, took, want)
			}
		}
	})
}

// TestTLS fetches pages of several hosts over TLS, with HTTP/1.1 and HTTP/2. The client
// trusts only the web's authority.
func TestTLS(t *testing.T) {
	w := newWeb(t, Config{TLS: true})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Serve(ctx, listener) }()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(w.CACert()) {
		t.Fatalf("CACert() = %q, want a certificate", w.CACert())
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, listener.Addr().String())
		},
		TLSClientConfig: &tls.Config{RootCAs: pool},
	}
	hosts := w.Hostnames()
	for i, host := range hosts[:17] { // at least one name of each hostForm
		transport.ForceAttemptHTTP2 = i%2 == 1
		response, err := transport.Clone().RoundTrip(newRequest(t, "https://"+host+"/"))
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusOK || response.ProtoMajor != 1+i%2 {
			t.Errorf("%s answers %s by %s, want 200 by HTTP/%d", host, response.Status, response.Proto, 1+i%2)
		}
		response.Body.Close()
	}
	if got := w.Traffic(); got.Requests != 17 || got.Connections != 17 {
		t.Errorf("Traffic() = %+v, want 17 requests on 17 connections", got)
	}
	if _, err := transport.RoundTrip(newRequest(t, "https://nowhere.test/")); err == nil {
		t.Error("TLS request to a host that the web does not have: no error")
	}
	first, err := w.authority.certificate(hosts[0])
	if second, again := w.authority.certificate(hosts[0]); err != nil || again != nil || first != second {
		t.Errorf("two calls of certificate for a host: different certificates, or errors %v and %v", err, again)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func newRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return request
}
