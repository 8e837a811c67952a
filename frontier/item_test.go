package frontier

import "testing"

// TestAnswerWords: the words go to other processes and into logs; the numbers go
// nowhere. The zero value is none of the answers.
func TestAnswerWords(t *testing.T) {
	for answer, want := range map[Answer]string{Seen: "seen", Added: "added", Refused: "refused", Deferred: "deferred", 0: "Answer(0)"} {
		if got := answer.String(); got != want {
			t.Errorf("Answer(%d) is %q, want %q", uint8(answer), got, want)
		}
	}
}
