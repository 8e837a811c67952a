package address

import (
	"strings"
	"testing"
)

func TestShown(t *testing.T) {
	for _, c := range []struct {
		url, want string
		hidden    bool
	}{
		{"", "", false},
		{"-", "-", false},
		{"SECRET", "…", true},
		{"SECRET:SECRET@host/db", "…", true},
		{"https://hooks.example/T0/SECRET", "https://hooks.example", true},
		{"https://hooks.example:8443/SECRET?token=SECRET#SECRET", "https://hooks.example:8443", true},
		{"HTTPS://SECRET:SECRET@hooks.example/SECRET", "HTTPS://hooks.example", true},
		{"https://hooks.example?SECRET", "https://hooks.example", true},
		{"https://SECRET:SEC/RET@hooks.example/SECRET@x", "https://…", true},
		{"https://hooks.example/SECRET@SECRET", "https://…", true},
		{"http://127.0.0.1:9/", "http://127.0.0.1:9", false},
		{"http://SECRET:SECRET@p.example:8080/SECRET?SECRET", "http://p.example:8080", true},
		{"socks5://SECRET@p.example", "socks5://p.example", true},
		{"http://p.example:8080", "http://p.example:8080", false},
		{"nats://SECRET:SECRET@n.example,m.example:1/pages?x=SECRET", "nats://n.example,m.example:1/pages", true},
		{"nats://n.example/pages", "nats://n.example/pages", false},
		{"kafka+tls://SECRET:SECRET@k.example/t?sasl=plain&x=SECRET", "kafka+tls://k.example/t?sasl=plain", true},
		{"sqs://SECRET:SECRET@sqs.eu-west-1.amazonaws.com/1/q.fifo?region=x&y=SECRET", "sqs://sqs.eu-west-1.amazonaws.com/1/q.fifo?region=x", true},
		{"redis+sentinel://SECRET:SECRET@h,i/m?sentinel_password=SECRET", "redis+sentinel://h,i/m", true},
		{"redis://SECRET@h:1/2?db=3", "redis://h:1/2?db=3", true},
		{"redis://h,i:7/0", "redis://h,i:7/0", false},
		{"redis://:SEC@RET@h", "redis://h", true},
		{"redis://:SEC/RET@h", "redis://…", true},
		{"redis://:SEC?RET@h", "redis://…", true},
		{"unix://:SECRET@/run/redis.sock?db=1", "unix:///run/redis.sock?db=1", true},
		{"postgres://SECRET:SECRET@[::1]:5/d?sslmode=disable&password=SECRET&user=SECRET", "postgres://[::1]:5/d?sslmode=disable", true},
		{"postgres://h/d?options=SECRET@SECRET", "postgres://…", true},
		{"s3://SECRET:SECRET@bucket/key?X-Amz-Signature=SECRET", "s3://bucket/key", true},
	} {
		shown, hidden := Shown(c.url)
		if shown != c.want || hidden != c.hidden {
			t.Errorf("Shown(%s) = %s, %t, want %s, %t", c.url, shown, hidden, c.want, c.hidden)
		}
	}
}

func FuzzShown(f *testing.F) {
	f.Add("user", "pass/word@", "nats")
	f.Add("a?", "b#", "https")
	f.Fuzz(func(t *testing.T, user, password, scheme string) {
		raw := scheme + "://" + user + "SECRET:SECRET" + password + "@host/x"
		if shown, hidden := Shown(raw); strings.Contains(shown, "SECRET") && !strings.Contains(scheme, "SECRET") || !hidden {
			t.Errorf("Shown(%q) = %q, %t", raw, shown, hidden)
		}
	})
}
