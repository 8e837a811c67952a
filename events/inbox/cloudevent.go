package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// CloudEvent returns the event of a document, which must be a CloudEvent of version 1.0 in
// the JSON format, as this crawler sends it. The ID of the Event is the source, a space and
// the id, because an id is unique only within its source. A source contains no space. The
// Data of the Event is the whole document. The error is ErrInvalid.
func CloudEvent(document []byte) (Event, error) {
	var attributes struct {
		SpecVersion string `json:"specversion"`
		Source      string `json:"source"`
		ID          string `json:"id"`
		Type        string `json:"type"`
	}
	if err := json.Unmarshal(document, &attributes); err != nil {
		return Event{}, fmt.Errorf("%w: it is no CloudEvent: %w", ErrInvalid, err)
	}
	a := &attributes
	if a.SpecVersion != "1.0" || a.Source == "" || strings.Contains(a.Source, " ") || a.ID == "" || a.Type == "" {
		return Event{}, fmt.Errorf("%w: it is no CloudEvent: specversion %q, source %.40q, id %.40q, type %.40q; want 1.0 and three texts",
			ErrInvalid, a.SpecVersion, a.Source, a.ID, a.Type)
	}
	e := Event{ID: a.Source + " " + a.ID, Type: a.Type, Data: document}
	return e, errors.Join(checkID(e.ID), checkText("type", e.Type))
}
