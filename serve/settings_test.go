package serve

import (
	"slices"
	"testing"

	"github.com/bloomfrontier/crawler/crawl/settings"
)

// operators are the settings that callers neither set nor see.
var operators = []string{
	"allow-net", "allow-port", "allow-private", "bind", "block", "ca", "cdc", "connect-to", "cookie-domain", "cookie-jar-file", "cookies", "dns",
	"grace", "header", "host-key", "insecure-host", "logins", "max-queued", "partitions", "proxy", "proxy-http",
	"purge-gone", "recrawl", "recrawl-every", "redis-wait", "save-cookies", "sign", "sign-reuse", "signature-agent", "sink", "worker",
}

// TestEachSettingHasAnOwner: a new setting needs a decision: either callers set it, or only the operator. No setting of the
// machine is open to callers.
func TestEachSettingHasAnOwner(t *testing.T) {
	t.Parallel()
	for _, row := range settings.Rows() {
		if open(row) == slices.Contains(operators, row.Name) {
			t.Errorf("setting %q is in both lists or in none: callers (settings.go), operators (this test)", row.Name)
		}
		if open(row) && row.Kept == settings.Here {
			t.Errorf("callers can set %q, which concerns the machine or lifts a guard", row.Name)
		}
	}
	for _, name := range slices.Concat(callers, operators) {
		if settings.Find(name) == nil {
			t.Errorf("there is no setting %q", name)
		}
	}
	if !slices.IsSorted(callers) || !slices.IsSorted(operators) {
		t.Error("a list is not sorted")
	}
}
