package stage

import (
	"bytes"
	"runtime/pprof"
	"testing"
)

// TestBeginSetsLabel: Begin sets the label of the calling goroutine and of the goroutines that
// it then starts. None.Begin removes the label. The test reads the labels from a profile.
func TestBeginSetsLabel(t *testing.T) {
	began, left, end := make(chan struct{}), make(chan struct{}), make(chan struct{})
	defer close(end)
	go func() {
		Parse.Begin()
		go func() { // this goroutine inherits the label
			close(began)
			<-end
		}()
		None.Begin()
		close(left)
		<-end
	}()
	<-began
	<-left
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(profile.Bytes(), []byte(`labels: {"stage":"parse"}`)); n != 1 {
		t.Errorf("%d stacks have the label of the stage parse, want 1:\n%s", n, profile.String())
	}
}

func BenchmarkBegin(b *testing.B) {
	for b.Loop() {
		Fetch.Begin()
		None.Begin()
	}
}
