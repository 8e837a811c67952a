package series

import (
	"bytes"
	"strings"
)

// idRange is one more than the largest id of a text.
const idRange = 1 << 24

const (
	prose        = 256 // letters from which the texts of a page count together, in their order
	leastNumbers = 4   // new numbers that are something new
	minID        = 8   // characters of a hexadecimal number that has letters
)

// Text is what a page says, as ids of its pieces. A piece is the text between two tags without digits and names of
// months. Pieces with 256 letters or more are one piece together: other pages can have the same paragraphs in
// another order.
type Text struct {
	pieces  []uint32
	numbers []uint32 // measurements, prices …: see number
}

// Read reads a body of HTML in any charset. Besides text it reads the images, their alternative texts, and data of
// scripts in JSON, because a script may show it. It takes about a nanosecond for each byte.
func (t *Text) Read(body []byte) {
	t.pieces, t.numbers = t.pieces[:0], t.numbers[:0]
	long := uint64(0)
	add := func(text []byte) {
		sum, letters := t.piece(text)
		switch {
		case letters >= prose:
			long = (long + sum) * prime
		case letters > 0:
			t.pieces = append(t.pieces, idOf(sum))
		}
	}
	for {
		tag := bytes.IndexByte(body, '<')
		if tag < 0 {
			add(body)
			break
		}
		add(body[:tag])
		body = body[tag:]
		if bytes.HasPrefix(body, []byte("<!--")) {
			_, body, _ = bytes.Cut(body, []byte("-->"))
			continue
		}
		end := bytes.IndexByte(body, '>')
		if end < 0 {
			break
		}
		element := body[:end]
		body = body[end+1:]
		switch name := tagName(element); {
		case isName(name, "script"), isName(name, "style"):
			content := until(body, name)
			body = body[len(content):]
			if bytes.Contains(element, []byte("json")) {
				add(content)
			}
		case isName(name, "img"):
			add(attribute(element, " alt="))
			add(attribute(element, " src="))
		}
	}
	if long != 0 {
		t.pieces = append(t.pieces, idOf(long))
	}
}

// piece returns a hash of the letters of a text, and their number. It adds the numbers of the text.
func (t *Text) piece(text []byte) (sum uint64, length int) {
	sum = offset
	begin, decimals := len(t.numbers), 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case isLetter(c):
			end, before := i, sum
			for ; end < len(text) && isLetter(text[end]); end++ {
				sum = (sum ^ uint64(text[end]|0x20)) * prime
			}
			if isMonth(text[i:end]) {
				sum = before
			} else {
				sum = (sum ^ ' ') * prime
				length += end - i
			}
			i = end
		case isDigit(c):
			end, id, decimal := number(text, i)
			if decimal { // before the integers
				t.numbers = append(t.numbers, id)
				last, first := len(t.numbers)-1, begin+decimals
				t.numbers[first], t.numbers[last] = t.numbers[last], t.numbers[first]
				decimals++
			} else if id != 0 {
				t.numbers = append(t.numbers, id)
			}
			i = end
		default:
			i++
		}
	}
	if length > 0 { // such as "Item 4711"
		t.numbers = t.numbers[:begin+decimals]
	}
	return sum, length
}

// number reads the number at text[i]. Its id is 0 unless it is a decimal fraction or an integer from 100 on,
// and no year, part of a date or time.
func number(text []byte, i int) (end int, id uint32, decimal bool) {
	sum, digits, marks := uint64(offset), 0, 0
	for end = i; end < len(text); end++ {
		c := text[end]
		if !isDigit(c) {
			if c != '.' && c != ',' || end+1 == len(text) || !isDigit(text[end+1]) {
				break
			}
			marks++
		} else {
			digits++
		}
		sum = (sum ^ uint64(c)) * prime
	}
	joins := func(c byte) bool { return c == '-' || c == '/' || c == ':' }
	before := i > 1 && joins(text[i-1]) && isDigit(text[i-2])
	after := end+1 < len(text) && joins(text[end]) && isDigit(text[end+1])
	isYear := digits == 4 && (bytes.HasPrefix(text[i:], []byte("19")) || text[i] == '2')
	if before || after || marks > 1 || marks == 0 && (digits < 3 || isYear) {
		return end, 0, false
	}
	return end, max(idOf(sum), 1), marks == 1
}

func tagName(tag []byte) []byte {
	for i := 1; i < len(tag); i++ {
		if !isLetter(tag[i]) {
			return tag[1:i]
		}
	}
	return tag[1:]
}

func isName(name []byte, want string) bool {
	return len(name) == len(want) && bytes.EqualFold(name, []byte(want))
}

// until returns the part of b before the end tag with this name, or all of b.
func until(b, name []byte) []byte {
	for at := 0; ; at += 2 {
		next := bytes.Index(b[at:], []byte("</"))
		if next < 0 {
			return b
		}
		at += next
		if rest := b[at+2:]; len(rest) >= len(name) && bytes.EqualFold(rest[:len(name)], name) {
			return b[:at]
		}
	}
}

// attribute returns the value of an attribute of a tag.
func attribute(tag []byte, name string) []byte {
	_, value, found := bytes.Cut(tag, []byte(name))
	if !found || len(value) == 0 {
		return nil
	}
	end := -1
	if quote := value[0]; quote == '"' || quote == '\'' {
		value = value[1:]
		end = bytes.IndexByte(value, quote)
	} else {
		end = bytes.IndexAny(value, " \t\n")
	}
	if end >= 0 {
		value = value[:end]
	}
	return value
}

// Pattern returns a canonical URL with # in place of each number and each name of a month of its path and query.
// numbered reports whether there is any; only then the URL belongs to a series. A UUID is a number, and so are
// eight or more hexadecimal digits of which at least one is no letter.
func Pattern(url string) (pattern string, numbered bool) {
	_, rest, _ := strings.Cut(url, "://")
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return url, false
	}
	begin := len(url) - len(rest) + slash
	b := make([]byte, 0, len(url))
	b = append(b, url[:begin]...)
	for i := begin; i < len(url); {
		c := url[i]
		switch {
		case c == '%' && i+2 < len(url):
			b = append(b, url[i:i+3]...)
			i += 3
			continue
		case !isDigit(c) && !isLetter(c):
			b = append(b, c)
			i++
			continue
		}
		if isUUID(url[i:]) {
			b, numbered = append(b, '#'), true
			i += len(uuid)
			continue
		}
		end, hex, digits := i, true, 0
		for ; end < len(url) && (isDigit(url[end]) || isLetter(url[end])); end++ {
			if isDigit(url[end]) {
				digits++
			} else {
				hex = hex && isHexLetter(url[end])
			}
		}
		word := url[i:end]
		switch {
		case hex && digits > 0 && len(word) >= minID, digits == 0 && isMonth([]byte(word)):
			b, numbered = append(b, '#'), true
		case digits == 0:
			b = append(b, word...)
		default:
			numbered = true
			for j := range len(word) {
				if !isDigit(word[j]) {
					b = append(b, word[j])
				} else if j == 0 || !isDigit(word[j-1]) {
					b = append(b, '#')
				}
			}
		}
		i = end
	}
	return string(b), numbered
}

const uuid = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"

// isUUID reports whether s begins with a UUID.
func isUUID(s string) bool {
	if len(s) < len(uuid) || len(s) > len(uuid) && (isDigit(s[len(uuid)]) || isLetter(s[len(uuid)])) {
		return false
	}
	for i := range len(uuid) {
		if isHyphen := s[i] == '-'; isHyphen != (uuid[i] == '-') || !isHyphen && !isDigit(s[i]) && !isHexLetter(s[i]) {
			return false
		}
	}
	return true
}

func isHexLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'f' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isLetter reports whether c is a letter, or a part of a character outside ASCII.
func isLetter(c byte) bool { return letters[c] }

var letters = func() (is [256]bool) {
	for c := range is {
		is[c] = c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
	}
	return is
}()

// FNV-1a.
const (
	offset = 14695981039346656037
	prime  = 1099511628211
)

func hashString(s string) uint64 {
	sum := uint64(offset)
	for i := range len(s) {
		sum = (sum ^ uint64(s[i])) * prime
	}
	return mix(sum)
}

// idOf returns a number below idRange.
func idOf(sum uint64) uint32 { return uint32(mix(sum) >> 40) }

// mix spreads the bits of a hash (the finalizer of MurmurHash3).
func mix(sum uint64) uint64 {
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd
	sum = (sum ^ sum>>33) * 0xc4ceb9fe1a85ec53
	return sum ^ sum>>33
}

// months are names of months in English, German, French, Spanish, Italian, Portuguese and Dutch.
var months = func() map[string]bool {
	all := make(map[string]bool)
	for _, name := range strings.Fields(`
		jan feb mar apr jun jul aug sep sept oct nov dec
		january february march april may june july august september october november december
		januar februar märz maerz mai juni juli oktober dezember okt dez
		janvier février fevrier mars avril juin juillet août aout septembre octobre novembre décembre decembre
		enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
		gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre
		janeiro fevereiro março marco maio junho julho setembro outubro novembro dezembro
		januari februari maart mei augustus`) {
		all[name] = true
		begins[at(name)] = true
	}
	return all
}()

// begins has the first three letters of the names of months; see at.
var begins [1 << 15]bool

func at[T string | []byte](word T) int {
	return int(word[0]&31)<<10 | int(word[1]&31)<<5 | int(word[2]&31)
}

// isMonth reports whether a word is the name of a month.
func isMonth(word []byte) bool {
	if len(word) < 3 || len(word) > 10 || !begins[at(word)] {
		return false
	}
	var lower [10]byte
	for i, c := range word {
		if c < 0x80 {
			c |= 0x20
		}
		lower[i] = c
	}
	return months[string(lower[:len(word)])]
}
