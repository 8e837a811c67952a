package crawl

import (
	"bytes"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/stage"
)

// TestStageTimes profiles this process while it works in two stages and in none.
func TestStageTimes(t *testing.T) {
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		t.Skip(err) // the test itself is being profiled
	}
	spin := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); {
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		stage.Parse.Begin()
		spin(400 * time.Millisecond)
		stage.Record.Begin()
		spin(200 * time.Millisecond)
		stage.None.Begin()
		spin(200 * time.Millisecond)
	}()
	<-done
	pprof.StopCPUProfile()
	whole := bytes.Clone(profile.Bytes())
	times, err := stageTimes(&profile)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"parse", "record", other} {
		if times[name] < 10*time.Millisecond { // on a loaded machine the processor time is shorter than the time of spin
			t.Errorf("stage %s has %v, want 10ms or more; times of all stages: %v", name, times[name], times)
		}
	}
	if _, err := stageTimes(bytes.NewReader(whole[:len(whole)/2])); err == nil {
		t.Error("stageTimes of half a profile: no error")
	}
	if _, err := stageTimes(strings.NewReader("no profile")); err == nil {
		t.Error("stageTimes of a text that is not a profile: no error")
	}
}
