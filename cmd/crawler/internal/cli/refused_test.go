package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
)

// TestRefusedFileContinuesTornLine: a line that a kill cut off does not swallow the
// first line of the next run.
func TestRefusedFileContinuesTornLine(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "refused.jsonl")
	if err := os.WriteFile(name, []byte(`{"url":"http://a.te`), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := openRefusals(name, "")
	if err != nil {
		t.Fatal(err)
	}
	log.write(refusal{URL: "http://b.test/", Reason: frontier.ReasonScope})
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if want := `{"url":"http://a.te` + "\n" + `{"url":"http://b.test/","reason":"scope"}` + "\n"; string(got) != want || err != nil {
		t.Errorf("the file has %q (%v), want %q", got, err, want)
	}
}
