package pgstore

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// uuids are fingerprints in the form that the driver encodes fastest.
type uuids = pgtype.FlatArray[pgtype.UUID]

func uuid(print bloomstore.Fingerprint) pgtype.UUID { return pgtype.UUID{Bytes: print, Valid: true} }

// A class is stored as one hexadecimal digit, which people can read.
const digits = "0123456789abcdef"

func digit(class frontier.Class) string { return digits[class : class+1] }

func classOf(digit rune) (frontier.Class, error) {
	at := strings.IndexRune(digits, digit)
	if at < 0 {
		return 0, fmt.Errorf("pgstore: class %q is no hexadecimal digit", digit)
	}
	return frontier.Class(at), nil
}

// outcomeOf returns the outcome with a letter. The table crawler.exact_outcome has the same
// letters.
func outcomeOf(letter rune) (frontier.Outcome, error) {
	for _, o := range frontier.Outcomes {
		if o.Letter == string(letter) {
			return o.Outcome, nil
		}
	}
	return "", fmt.Errorf("pgstore: no outcome has the letter %q", letter)
}
