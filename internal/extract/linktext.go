package extract

import "cmp"

// Bounds of what a LinkText keeps.
const (
	MaxAnchorBytes = 256
	MaxRelBytes    = 64
)

// LinkText is what a page says of a link.
type LinkText struct {
	Text string // of the <a>, white space collapsed, at most MaxAnchorBytes; of several the first that has some
	Rel  string // the rel attribute, at most MaxRelBytes; of several the first
}

// add takes what another place in the page says of the same link.
func (a *LinkText) add(other LinkText) {
	a.Text, a.Rel = cmp.Or(a.Text, other.Text), cmp.Or(a.Rel, other.Rel)
}

// addRelText notes the rel attribute of a reference.
func (c *collector) addRelText(i int32, rel string) {
	if c.opt.LinkTexts && i >= 0 && rel != "" {
		c.texts[i].add(LinkText{Rel: collapsed(rel, MaxRelBytes)})
	}
}

// addText takes text within the <a> that is open.
func addText[T string | []byte](c *collector, text T) {
	if room := 4*MaxAnchorBytes - len(c.openText); room > 0 {
		c.openText = append(c.openText, text[:min(len(text), room)]...)
	}
}

// closeAnchor ends the <a> that is open, if any.
func (c *collector) closeAnchor() {
	if c.open >= 0 {
		c.texts[c.open].add(LinkText{Text: collapsed(string(c.openText), MaxAnchorBytes)})
		c.open = -1
	}
}
