package maintext

import (
	"slices"
	"strings"
)

// minWords is the minimum number of words of a main text. If the content has fewer, all text
// that the page does not mark as navigation counts as content.
const minWords = 25

// text returns the text of the blocks that are content. Each block begins on a new line. The
// result cut reports whether the end of the text is missing.
func (p *page) text() (text string, cut bool) {
	p.settleWrappers()
	p.settleContent()
	content := p.judge()
	if p.words(content) < minWords {
		for i := range p.blocks {
			content[i] = !p.blocks[i].aside
		}
	}
	var b strings.Builder
	for i := range p.blocks {
		if !content[i] {
			continue
		}
		if b.Len()+len(p.blocks[i].text) >= MaxTextBytes {
			return b.String(), true
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.blocks[i].text)
	}
	return b.String(), p.cut
}

// settleWrappers sets the field aside of the blocks in a wrapper. It ignores wrappers that
// contain most of the page: a third of the words of a page for a wrapper that is named so, and
// more than half of the words that are not in links for others, if these are not mostly links
// and the page has no main or article outside.
func (p *page) settleWrappers() {
	for i := range p.blocks {
		b := &p.blocks[i]
		w := &p.wrappers[b.wrapper]
		w.words, w.unlinked = w.words+b.words, w.unlinked+b.words-b.linked
		w.hasMain = w.hasMain || b.within
	}
	for i := len(p.wrappers) - 1; i > 0; i-- { // a wrapper comes after those around it
		w := &p.wrappers[i]
		parent := &p.wrappers[w.parent]
		parent.words, parent.unlinked = parent.words+w.words, parent.unlinked+w.unlinked
		parent.hasMain = parent.hasMain || w.hasMain
	}
	aside := make([]bool, len(p.wrappers))
	all := p.wrappers[0]
	for i, w := range p.wrappers[1:] {
		isMost := 2*w.unlinked > all.unlinked && 2*w.unlinked > w.words && w.hasMain == all.hasMain
		if w.named {
			isMost = 3*w.words >= all.words
		}
		aside[i+1] = !isMost || aside[w.parent]
	}
	for i := range p.blocks {
		p.blocks[i].aside = p.blocks[i].aside || aside[p.blocks[i].wrapper]
	}
}

// settleContent drops the marks of main and article elements if they contain no more than
// a third of the words. For example, a list of teasers can consist of articles.
func (p *page) settleContent() {
	within, all := 0, 0
	for i := range p.blocks {
		if b := &p.blocks[i]; !b.aside {
			all += b.words
			if b.within {
				within += b.words
			}
		}
	}
	for i := range p.blocks {
		p.blocks[i].within = p.blocks[i].within && 3*within > all
	}
}

// judge returns for each block whether it is content.
func (p *page) judge() []bool {
	content := make([]bool, len(p.blocks))
	marked := false // whether the page marks its content
	for i := range p.blocks {
		marked = marked || p.blocks[i].within && !p.blocks[i].aside
	}
	var candidates []int // the blocks that can be content
	for i := range p.blocks {
		if b := &p.blocks[i]; !b.aside && (b.within || !marked) {
			candidates = append(candidates, i)
		}
	}
	for j, i := range candidates {
		var before, after block
		if j > 0 {
			before = p.blocks[candidates[j-1]]
		}
		if j+1 < len(candidates) {
			after = p.blocks[candidates[j+1]]
		}
		b := &p.blocks[i]
		content[i] = marked && b.density() <= 0.5 || wordy(&before, b, &after)
	}
	p.fill(candidates, content)
	return content
}

// wordy reports whether a block is content, by the numbers of words and of linked words
// of the block and its neighbours. It is the decision tree of the paper that the package
// comment cites, with one more decision: a short block above links counts as a part of
// these links.
func wordy(before, b, after *block) bool {
	switch {
	case b.density() > 1.0/3:
		return false
	case before.density() > 5.0/9:
		return b.words > 40 || after.words > 17
	case b.words <= 16 && after.density() > 5.0/9:
		return false
	}
	return b.words > 16 || after.words > 15 || before.words > 4
}

// fill adds blocks that belong to content near them: short blocks and code between two
// blocks of content, and headings above a block of content. It removes headings without
// content below.
func (p *page) fill(candidates []int, content []bool) {
	const gap = 4 // blocks
	last := -1    // index in candidates of the last block of content
	for j, i := range candidates {
		if !content[i] {
			continue
		}
		if last >= 0 && j-last-1 <= gap {
			for _, between := range candidates[last+1 : j] {
				b := &p.blocks[between]
				content[between] = content[between] || b.code || b.density() <= 0.5
			}
		}
		last = j
	}
	below := false // the next block is content
	for _, i := range slices.Backward(candidates) {
		if b := &p.blocks[i]; b.heading {
			content[i] = below && b.density() <= 0.5
		}
		below = content[i]
	}
}

// words counts the words of content.
func (p *page) words(content []bool) (n int) {
	for i := range p.blocks {
		if content[i] {
			n += p.blocks[i].words
		}
	}
	return n
}
