package human

import (
	"encoding/json"
	"math"
	"time"
)

// Seconds is a duration that JSON shows as a number of seconds, such as 1.5.
type Seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	var seconds float64
	err := json.Unmarshal(text, &seconds)
	*s = Seconds(math.Round(seconds * 1e9))
	return err
}
