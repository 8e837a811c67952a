package dedup

import "io"

const (
	chunkBytes  = 64 << 10 // what a pipe holds
	groupChunks = 8
)

// input reads ahead of the stream, so that reading goes on while output is
// written and synced, and what has come meanwhile makes one group.
type input struct {
	filled chan chunk
	free   chan []byte
	done   chan struct{} // closed: nobody takes chunks any more
}

// chunk is what one Read returned.
type chunk struct {
	bytes []byte
	err   error // io.EOF at the end
}

// readAhead begins to read from. Its goroutine ends at the first error, or
// after stop and the Read that is under way then: a terminal or a pipe may keep
// that waiting for as long as the process lives.
func readAhead(from io.Reader) *input {
	in := &input{
		filled: make(chan chunk, groupChunks),
		free:   make(chan []byte, groupChunks),
		done:   make(chan struct{}),
	}
	for range groupChunks {
		in.free <- make([]byte, chunkBytes)
	}
	go in.read(from)
	return in
}

func (in *input) read(from io.Reader) {
	for {
		var buf []byte
		select {
		case buf = <-in.free:
		case <-in.done:
			return
		}
		n, err := from.Read(buf)
		select {
		case in.filled <- chunk{buf[:n], err}:
		case <-in.done:
			return
		}
		if err != nil {
			return
		}
	}
}

// release gives a chunk's buffer back.
func (in *input) release(c chunk) { in.free <- c.bytes[:chunkBytes] }

func (in *input) stop() { close(in.done) }
