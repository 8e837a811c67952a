package cli

import (
	"errors"
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher/fields"
)

// readFields reads the fields of the config file: a list of URL patterns, each with
// its fields.
func (l *layers) readFields(name string, node *yaml.Node) error {
	const want = `want a list of "url: REGEXP" with "fields:", which are names with sources`
	if node.Kind != yaml.SequenceNode {
		return fmt.Errorf("%s:%d: fields: %s", name, node.Line, want)
	}
	var errs []error
	for _, item := range node.Content {
		fault := func(at *yaml.Node, err error) {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: fields: %w", name, at.Line, err))
			}
		}
		var g crawl.FieldGroup
		for key, value := range pairs(item) {
			switch {
			case key.Value == "url" && value.Kind == yaml.ScalarNode:
				g.URL = value.Value
				_, err := regexp.Compile(g.URL)
				fault(value, err)
			case key.Value == "fields":
				texts, err := texts(value, nameSeparators["field"])
				fault(value, err)
				for _, text := range texts {
					fault(value, fields.Check(text))
				}
				g.Fields = texts
			default:
				fault(key, fmt.Errorf("%q: %s", key.Value, want))
			}
		}
		if item.Kind != yaml.MappingNode || g.URL == "" || len(g.Fields) == 0 {
			fault(item, errors.New(want))
		}
		l.groups = append(l.groups, g)
	}
	return errors.Join(errs...)
}
