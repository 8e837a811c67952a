package inbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// TestKeyFromJSONGolden: the keys never change, because consumers have stored them. Each sum
// was computed with sha256sum from the text in the comment above its document.
func TestKeyFromJSONGolden(t *testing.T) {
	for _, test := range []struct{ document, want string }{
		// {"1:a#1e0"1:b["2:ünt]}
		{`{"b": ["ü", null, true], "a": 1}`, "89426076e09393e55ab99e4e1d981e61c5be71af5ac1fad09c4214803bcd20a3"},
		// #-125e-2
		{`-1.250`, "74929d7a1efd8319e51ce7b67edee3b421c59bd7cb3dea17b8da24774b9dac92"},
	} {
		if got, err := inbox.KeyFromJSON([]byte(test.document)); got != test.want || err != nil {
			t.Errorf("KeyFromJSON(%s) = %s, %v; want %s", test.document, got, err, test.want)
		}
	}
}

func TestKeyFromJSONEqual(t *testing.T) {
	for _, group := range [][]string{
		{`{"a":1,"b":{"c":2,"d":3}}`, "{ \"b\" : {\"d\":3,\t\"c\":2},\n\"a\" : 1 }"},
		{`1`, `1.0`, `1.000`, `10e-1`, `0.1E+1`, `1E0`, `0.0001e4`},
		{`0`, `-0`, `0.000`, `0e17`, `-0.0e-3`},
		{`100`, `1e2`, `10.0e1`},
		{`"/é"`, `"\/\u00e9"`, `"\u002f\u00E9"`},
		{`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`},
		{`"\\ud800"`, `"\u005cud800"`},
	} {
		want := mustKey(t, group[0])
		for _, document := range group[1:] {
			if got := mustKey(t, document); got != want {
				t.Errorf("%s and %s have different keys, want the same", group[0], document)
			}
		}
	}
}

func TestKeyFromJSONDifferent(t *testing.T) {
	documents := []string{
		`null`, `true`, `false`, `0`, `1`, `-1`, `10`, `0.1`, `""`, `"0"`, `"null"`, `[]`, `[[]]`, `[1,2]`, `[2,1]`, `[12]`,
		`{}`, `{"a":1}`, `{"a":"1"}`, `{"a":[1]}`, `{"a":null}`, `{"b":1}`, `{"a":{"b":1}}`, `{"a":1,"b":1}`, `[{"a":1},{"b":1}]`,
		`"é"`, `"e\u0301"`, // two forms of é, which look the same but differ as JSON
		`9007199254740993`, `9007199254740992`, // equal as float64
		`0.1000000000000000055511151231257827`, `1e400`, `1e401`, // equal as float64 too
		`"\ufffd"`, `"a\u0000b"`, `"ab"`, `{"a\"1:b":1}`,
	}
	seen := make(map[string]string)
	for _, document := range documents {
		key := mustKey(t, document)
		if other, twice := seen[key]; twice {
			t.Errorf("%s and %s have the same key, want different ones", document, other)
		}
		seen[key] = document
	}
}

func TestKeyFromJSONOmit(t *testing.T) {
	const one = `{"id":7,"sent_at":"09:00","meta":{"try":1,"a/b":1,"of":[{"at":1}]}}`
	const two = `{"id":7,"sent_at":"09:05","meta":{"try":2,"a/b":2,"of":[{"at":2}]}}`
	omit := []string{"/sent_at", "/meta/try", "/meta/a~1b", "/meta/of/0/at", "/nothing", "/meta/of/1"}
	if a, b := mustKey(t, one, omit...), mustKey(t, two, omit...); a != b {
		t.Error("documents that differ only in omitted members have different keys, want the same")
	}
	for i := range omit[:4] {
		rest := append(append([]string{}, omit[:i]...), omit[i+1:]...)
		if a, b := mustKey(t, one, rest...), mustKey(t, two, rest...); a == b {
			t.Errorf("documents that differ at %s have the same key, want different ones", omit[i])
		}
	}
	if a, b := mustKey(t, `{"id":7}`), mustKey(t, `{"id":7,"at":1}`, "/at"); a != b {
		t.Error("a document with an omitted member and one without this member have different keys, want the same")
	}
	if _, err := inbox.KeyFromJSON([]byte(one), "sent_at"); err == nil {
		t.Error("KeyFromJSON with a name that is no JSON Pointer: no error")
	}
}

func TestKeyFromJSONRefuses(t *testing.T) {
	for _, document := range []string{
		``, ` `, `{`, `[1`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,}`, `1 2`, `{} {}`, `[1]]`, `tru`, `01`, `1e`, `'a'`, `NaN`,
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `[{"b":{"a":1,"a":2}}]`,
		`"\ud800"`, `"\ude00"`, `"\ud800x"`, `"\ud800\n"`, `"\ud800\ud800\udc00"`, `{"\udfff":1}`, "\"\xff\"",
		`1e99999999999`, strings.Repeat("[", 200) + strings.Repeat("]", 200),
	} {
		if key, err := inbox.KeyFromJSON([]byte(document)); !errors.Is(err, inbox.ErrDocument) || key != "" {
			t.Errorf("KeyFromJSON(%.40s) = %q, %v; want ErrDocument", document, key, err)
		}
	}
}

func TestKeyFromOffset(t *testing.T) {
	if got := inbox.KeyFromOffset("pages", 3, 1<<40); got != "pages/3/1099511627776" {
		t.Errorf("KeyFromOffset = %q, want pages/3/1099511627776", got)
	}
}

// FuzzKeyFromJSON writes a document in another form. The key must be the same. Then it
// changes one value. The key must now differ.
func FuzzKeyFromJSON(f *testing.F) {
	for _, document := range []string{
		`{"a":[1,-2.50,3e10,"x\u00e9",null,true],"b":{"c":"d","e":[]}}`, `[[],{},"",0,-0.0]`,
		`{"":{"":""}}`, `123456789012345678901234567890.0100e-5`, `"\ud83d\ude00\u2028<>&"`,
	} {
		f.Add([]byte(document), uint64(1))
	}
	f.Fuzz(func(t *testing.T, document []byte, seed uint64) {
		key, err := inbox.KeyFromJSON(document)
		if err != nil {
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(document))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("%q has a key, but encoding/json cannot decode it: %v", document, err)
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		other := rewrite(rng, value)
		if got, err := inbox.KeyFromJSON([]byte(other)); got != key || err != nil {
			t.Fatalf("%q has key %s, its other form %q has key %s (%v); want the same key", document, key, other, got, err)
		}
		changed := rewrite(rng, change(rng, value))
		if got, err := inbox.KeyFromJSON([]byte(changed)); got == key || err != nil {
			t.Fatalf("%q and the changed document %q have the same key (%v), want different ones", document, changed, err)
		}
	})
}

// rewrite returns another JSON form of value.
func rewrite(rng *rand.Rand, value any) string {
	space := func() string { return []string{"", " ", "\n\t", "\r\n"}[rng.IntN(4)] }
	text := ""
	switch value := value.(type) {
	case map[string]any: // the order of a Go map is random
		var members []string
		for name, member := range value {
			members = append(members, space()+rewriteText(rng, name)+space()+":"+rewrite(rng, member))
		}
		text = "{" + strings.Join(members, ",") + space() + "}"
	case []any:
		var elements []string
		for _, element := range value {
			elements = append(elements, rewrite(rng, element))
		}
		text = "[" + strings.Join(elements, ",") + space() + "]"
	case string:
		text = rewriteText(rng, value)
	case json.Number:
		text = rewriteNumber(rng, value.String())
	default:
		text = fmt.Sprint(value)
		if value == nil {
			text = "null"
		}
	}
	return space() + text + space()
}

func rewriteText(rng *rand.Rand, text string) string {
	b := []byte{'"'}
	for _, r := range text {
		switch {
		case r > 0xffff && rng.IntN(2) == 0:
			b = fmt.Appendf(b, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		case r <= 0xffff && (r < ' ' || r == '"' || r == '\\' || rng.IntN(3) == 0):
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = append(b, string(r)...)
		}
	}
	return string(append(b, '"'))
}

// rewriteNumber moves the point of a number and corrects its exponent.
func rewriteNumber(rng *rand.Rand, text string) string {
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	exponent, _ := strconv.Atoi(power)
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	if digits == "" {
		return []string{"0", "-0", "0.00", "-0e7"}[rng.IntN(4)]
	}
	for range rng.IntN(3) {
		digits += "0"
		exponent--
	}
	if rng.IntN(2) == 0 {
		exponent += len(digits)
		digits = "0." + digits
	}
	if negative {
		digits = "-" + digits
	}
	return fmt.Sprintf("%s%s%+d", digits, []string{"e", "E"}[rng.IntN(2)], exponent)
}

// change returns value with one difference.
func change(rng *rand.Rand, value any) any {
	switch value := value.(type) {
	case map[string]any:
		changed := map[string]any{}
		for name, member := range value {
			changed[name] = member
		}
		for name := range value {
			changed[name] = change(rng, value[name])
			return changed
		}
		return []any{}
	case []any:
		if len(value) == 0 {
			return map[string]any{}
		}
		changed := append([]any{}, value...)
		i := rng.IntN(len(value))
		changed[i] = change(rng, value[i])
		return changed
	case json.Number:
		digits, negative := strings.CutPrefix(value.String(), "-")
		if negative {
			return json.Number("-9" + digits)
		}
		return json.Number("9" + digits)
	case string:
		return value + "x"
	case bool:
		return !value
	}
	return json.Number("0")
}

func mustKey(t *testing.T, document string, omit ...string) string {
	t.Helper()
	key, err := inbox.KeyFromJSON([]byte(document), omit...)
	if err != nil {
		t.Fatalf("KeyFromJSON(%s): %v", document, err)
	}
	return key
}
