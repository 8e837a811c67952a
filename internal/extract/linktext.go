package extract

import "cmp"

// Maximum lengths of the fields of a LinkText.
const (
	MaxAnchorBytes = 256
	MaxRelBytes    = 64
)

// LinkText is the text and the rel attribute of a link. If the link is in several places
// of the page, each field has the first value that is not empty.
type LinkText struct {
	Text string // text of the <a>, white space collapsed, at most MaxAnchorBytes
	Rel  string // rel attribute, at most MaxRelBytes
}

// add adds the values of another place of the same link.
func (a *LinkText) add(other LinkText) {
	a.Text, a.Rel = cmp.Or(a.Text, other.Text), cmp.Or(a.Rel, other.Rel)
}

// addLinkText adds the values of a place to those of a reference, if there is memory for them.
func (c *collector) addLinkText(i int32, text LinkText) {
	if c.memory.use(int64(len(text.Text) + len(text.Rel))) {
		c.texts[i].add(text)
	}
}

// addRelText stores the rel attribute of a reference.
func (c *collector) addRelText(i int32, rel string) {
	if c.opt.LinkTexts && i >= 0 && rel != "" {
		c.addLinkText(i, LinkText{Rel: collapsed(rel, MaxRelBytes)})
	}
}

// addText adds text to the <a> that is open.
func addText[T string | []byte](c *collector, text T) {
	if room := 4*MaxAnchorBytes - len(c.openText); room > 0 {
		c.openText = append(c.openText, text[:min(len(text), room)]...)
	}
}

// closeAnchor ends the <a> that is open, if any.
func (c *collector) closeAnchor() {
	if c.open >= 0 {
		c.addLinkText(c.open, LinkText{Text: collapsed(string(c.openText), MaxAnchorBytes)})
		c.open = -1
	}
}
