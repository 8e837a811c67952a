package exact

import "encoding/binary"

// lineChunk is how much of the id of a chunk is in the name of a line, in bytes.
const lineChunk = 16

// NewLine returns the name of a line of a chunk: the first bytes of the chunk's id, the number of the line, and what the
// client calls the submission.
func NewLine(chunk [32]byte, number int, submission string) string {
	return string(binary.BigEndian.AppendUint32(chunk[:lineChunk:lineChunk], uint32(number))) + submission
}

// ParseLine returns the parts of the name of a line. They are empty for an empty name.
func ParseLine(name string) (chunk string, number int, submission string) {
	if len(name) < lineChunk+4 {
		return "", 0, ""
	}
	return name[:lineChunk], int(binary.BigEndian.Uint32([]byte(name[lineChunk:]))), name[lineChunk+4:]
}
