package policy

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Block is a rule of crawler block. It selects one URL, the item with one fingerprint, or what a Target selects.
type Block struct {
	Since  uint64 // number of the version of the policy that made the rule; at least 1
	text   string // without Since
	url    string // canonical; empty means any
	item   bloomstore.Fingerprint
	target Target // if there is neither a URL nor a fingerprint
}

// ParseBlock parses a text such as "since=3 url=https://a.test/b", "since=3 item=FINGERPRINT" in 32 hex digits, or
// "since=3 host=*.a.test match=/b/", whose host and match are those of a Target.
func ParseBlock(text string) (b Block, err error) {
	first, rest, _ := strings.Cut(text, " ")
	number, is := strings.CutPrefix(first, "since=")
	if b.Since, err = strconv.ParseUint(number, 10, 63); err != nil || !is || b.Since == 0 {
		return Block{}, fmt.Errorf("it begins with %q, want since=VERSION: crawler block makes such rules", first)
	}
	b.text = rest
	name, value, _ := strings.Cut(rest, "=")
	switch name {
	case "url":
		if b.url = value; value == "" {
			err = errors.New("url is empty")
		}
	case "item":
		var item []byte
		if item, err = hex.DecodeString(value); err != nil || len(item) != len(b.item) {
			return Block{}, fmt.Errorf("item is %q, want a fingerprint in 32 hex digits", value)
		}
		b.item = bloomstore.Fingerprint(item)
	default:
		b.target, err = ParseTarget(rest)
		if err == nil && (b.target.class != "" || b.target.depth > 0) {
			err = errors.New("want only host=PATTERN and match=RE")
		}
	}
	return b, err
}

// String returns the text from which the Block was parsed.
func (b *Block) String() string { return fmt.Sprintf("since=%d %s", b.Since, b.text) }

// Rule returns what the Block selects: its text without Since.
func (b *Block) Rule() string { return b.text }

// Blocks are all rules of crawler block at one time. The zero value selects nothing. It does not change.
type Blocks struct {
	// Hash returns the fingerprint of a URL. If it is nil, rules with fingerprints select no URL whose fingerprint is
	// not known.
	Hash   func(url string) bloomstore.Fingerprint
	last   uint64
	byURL  map[string]*Block
	byItem map[bloomstore.Fingerprint]*Block
	others []*Block // with a Target
}

// NewBlocks returns rules. If several select a URL in the same way, the one that was made first counts.
func NewBlocks(rules []Block) (b Blocks) {
	b.byURL, b.byItem = make(map[string]*Block), make(map[bloomstore.Fingerprint]*Block)
	for i := range rules {
		r := &rules[i]
		b.last = max(b.last, r.Since)
		switch {
		case r.url != "":
			if b.byURL[r.url] == nil {
				b.byURL[r.url] = r
			}
		case r.item != bloomstore.Fingerprint{}:
			if b.byItem[r.item] == nil {
				b.byItem[r.item] = r
			}
		default:
			b.others = append(b.others, r)
		}
	}
	return b
}

// Last returns the greatest Since of the rules; 0 means that there are none.
func (b *Blocks) Last() uint64 { return b.last }

// Find returns a rule that selects a URL of a host, or nil. The argument item is its fingerprint; zero means that it is
// not known.
func (b *Blocks) Find(host, url string, item bloomstore.Fingerprint) *Block {
	if b.last == 0 {
		return nil
	}
	if item == (bloomstore.Fingerprint{}) && len(b.byItem) > 0 && b.Hash != nil {
		item = b.Hash(url)
	}
	if rule := b.byItem[item]; rule != nil {
		return rule
	}
	plain, _ := frontier.Checked(url)
	if rule := b.byURL[plain]; rule != nil {
		return rule
	}
	offer := frontier.Offer{Host: host, URL: plain}
	for _, rule := range b.others {
		if rule.target.Selects(&offer, "") {
			return rule
		}
	}
	return nil
}
