package dedup

import "io"

const (
	chunkBytes  = 64 << 10 // the capacity of a pipe
	groupChunks = 8
)

// input reads ahead of the stream, so that reading goes on while output is written
// and synced. All that was read meanwhile makes one group.
type input struct {
	filled chan chunk
	free   chan []byte
	done   chan struct{} // closed when no more chunks are taken
}

// chunk is what one Read returned.
type chunk struct {
	bytes []byte
	err   error // io.EOF at the end
}

// readAhead starts to read. Its goroutine ends at the first error, or after stop
// and the Read that is then under way. A Read from a terminal or a pipe may last as
// long as the process.
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

// release returns the buffer of a chunk.
func (in *input) release(c chunk) { in.free <- c.bytes[:chunkBytes] }

func (in *input) stop() { close(in.done) }
