package preference

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/bloomfrontier/crawler/internal/robots"
)

// The names of TDMRep, the protocol for reserving rights about text and data mining.
const (
	tdmPrefix      = "tdm-"
	tdmReservation = "reservation"
	tdmPolicy      = "policy"
)

func isTDM(name string) bool {
	rest, is := strings.CutPrefix(strings.ToLower(strings.TrimSpace(name)), tdmPrefix)
	return is && (rest == tdmReservation || rest == tdmPolicy)
}

// place is one of the places in which a page can have a reservation.
type place struct {
	source                 string // headerTDM, metaTDM or fileTDM
	reservations, policies []string
}

// reservations returns the statements of TDMRep. Only the first place with a valid reservation counts.
func (p *Page) reservations() (all []Statement) {
	places := [...]place{{source: metaTDM}, {source: headerTDM, reservations: p.Header["Tdm-Reservation"], policies: p.Header["Tdm-Policy"]}, {source: fileTDM}}
	for _, meta := range p.Metas {
		switch name := strings.ToLower(strings.TrimSpace(meta.Name)); name {
		case tdmPrefix + tdmReservation:
			places[0].reservations = append(places[0].reservations, meta.Content)
		case tdmPrefix + tdmPolicy:
			places[0].policies = append(places[0].policies, meta.Content)
		}
	}
	if p.File != nil {
		places[2].reservations = []string{p.File.Reservation}
		if p.File.Policy != "" {
			places[2].policies = []string{p.File.Policy}
		}
	}
	decided := false
	for _, place := range places {
		reserved, valid := false, false
		for _, value := range place.reservations {
			value = strings.TrimSpace(value)
			reserved, valid = reserved || value == "1", valid || value == "0" || value == "1"
		}
		for _, value := range place.reservations {
			s := Statement{Source: place.source + tdmReservation, Value: value}
			if reserved && !decided {
				s.Answers[TrainAI], s.Answers[AIUse] = Refused, Refused
			}
			all = append(all, s)
		}
		decided = decided || valid
		for _, value := range place.policies {
			all = append(all, Statement{Source: place.source + tdmPolicy, Value: value})
		}
	}
	return all
}

// Limits of tdmrep.json.
const (
	MaxFile  = 16 << 10 // bytes
	maxRules = 200
)

// File has the rules of a tdmrep.json. It does not change.
type File struct{ rules []Rule }

// Rule is a rule of a File.
type Rule struct {
	Location    string
	Reservation string // "1" or "0"
	Policy      string // URL; empty means none

	pattern robots.Pattern
}

// ErrFile reports a tdmrep.json that is not valid.
var ErrFile = errors.New("not a tdmrep.json")

// ParseFile parses a tdmrep.json. It leaves out rules without a location or a valid reservation, and those
// after the first 200. Its error wraps ErrFile.
func ParseFile(body []byte) (*File, error) {
	var listed []struct {
		Location    string          `json:"location"`
		Reservation json.RawMessage `json:"tdm-reservation"`
		Policy      string          `json:"tdm-policy"`
	}
	if len(body) > MaxFile {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrFile, MaxFile)
	}
	if err := json.Unmarshal(body, &listed); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	f := new(File)
	for _, r := range listed[:min(len(listed), maxRules)] {
		reservation := strings.Trim(string(r.Reservation), `"`)
		if r.Location == "" || reservation != "0" && reservation != "1" {
			continue
		}
		if r.Location[0] != '/' && r.Location[0] != '*' {
			r.Location = "/" + r.Location
		}
		f.rules = append(f.rules, Rule{r.Location, reservation, r.Policy, robots.NewPattern(r.Location)})
	}
	return f, nil
}

// Find returns the first rule for a path with its query, or nil. It returns nil for a nil File.
func (f *File) Find(pathAndQuery string) *Rule {
	if f == nil {
		return nil
	}
	for i := range f.rules {
		if f.rules[i].pattern.Matches(pathAndQuery) {
			return &f.rules[i]
		}
	}
	return nil
}
