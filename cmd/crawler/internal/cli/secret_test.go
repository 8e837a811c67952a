package cli

import (
	"strings"
	"testing"
)

// TestOnlySchemeAndHostAreShown: of the URL of a webhook or a proxy, only the scheme, the host and
// the user of a proxy are shown, and the rest counts as a secret.
func TestOnlySchemeAndHostAreShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flag, url, want string
		secret          bool
	}{
		{"to", "https://hooks.example/T0/SECRET", "https://hooks.example", true},
		{"events", "https://hooks.example:8443/SECRET?token=SECRET#SECRET", "https://hooks.example:8443", true},
		{"to", "HTTPS://user:SECRET@hooks.example/SECRET", "HTTPS://hooks.example", true},
		{"to", "https://hooks.example?SECRET", "https://hooks.example", true},
		{"to", "https://user:SEC/RET@hooks.example/SECRET@x", "https://x", true},
		{"to", "http://127.0.0.1:9/", "http://127.0.0.1:9", false},
		{"to", "nats://user:SECRET@n.example/pages?x=SECRET", "nats://user:@n.example/pages", true},
		{"proxy", "http://user:SECRET@p.example:8080/SECRET?SECRET", "http://user@p.example:8080", true},
		{"proxy", "http://p.example:8080", "http://p.example:8080", false},
	} {
		shown, secret := withoutSecret(c.flag, c.url)
		if shown != c.want || secret != c.secret || strings.Contains(shown, "SECRET") {
			t.Errorf("withoutSecret(%s, %s) = %s, %v, want %s, %v", c.flag, c.url, shown, secret, c.want, c.secret)
		}
	}
}
