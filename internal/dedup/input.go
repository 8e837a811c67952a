package dedup

import "io"

const (
	chunkBytes  = 64 << 10 // the capacity of a pipe
	groupChunks = 8
)

// input reads ahead of the stream, so that reading goes on while output is written and
// synced. The chunks that were read in the meantime form one group.
type input struct {
	filled chan chunk
	free   chan []byte
	done   chan struct{} // closed by stop
}

// chunk has the results of one Read.
type chunk struct {
	bytes []byte
	err   error // io.EOF at the end
}

// readAhead starts a goroutine that reads. The goroutine ends at the first error, or
// after stop, when the Read under way returns. A Read from a terminal or a pipe might
// block until the process ends.
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

// release makes the buffer of a chunk available for reading again.
func (in *input) release(c chunk) { in.free <- c.bytes[:chunkBytes] }

func (in *input) stop() { close(in.done) }
