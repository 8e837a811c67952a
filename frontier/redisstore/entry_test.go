package redisstore

import (
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

var testHasher = bloomstore.NewHasher(bloomstore.Key{1, 2, 3})

// checkEntry encodes an item and checks that decoding returns it with its
// fingerprint.
func checkEntry(t *testing.T, it frontier.Item) []byte {
	t.Helper()
	entry := appendEntry(nil, &it)
	got, err := decodeEntry(string(entry), it.Host, testHasher)
	if err != nil {
		t.Fatalf("decodeEntry(%q), the entry of %+v: %v", entry, it, err)
	}
	it.Fingerprint = testHasher.Fingerprint(it.URL)
	if got != it {
		t.Errorf("an entry decodes to %+v, want %+v", got, it)
	}
	return entry
}

func TestEntryRoundTrip(t *testing.T) {
	long := strings.Repeat("h", maxAuthority+1)
	for _, c := range []struct {
		url, host string
		length    int // length of the entry
	}{
		{"https://a.test/", "a.test", 6 + 1},
		{"http://a.test/path?query", "a.test", 6 + 11},
		{"https://a.test:8443/", "a.test", 6 + 1 + 11 + 1},
		// The host key is the registrable domain, not the host name.
		{"https://www.a.test/", "a.test", 6 + 1 + 10 + 1},
		{"https://[2001:db8::1]/x", "[2001:db8::1]", 6 + 2},
		// The host name is longer than maxAuthority, so the entry contains the whole URL.
		{"https://" + long + "/", "a.test", 6 + 1 + 8 + len(long) + 1},
		{"ftp://a.test/x", "a.test", 6 + 1 + 14},
		{"https:///x", "", 6 + 1 + 10},
		{"https://a.test", "a.test", 6 + 1 + 14},
		{"/", "", 6 + 1 + 1},
		{"x", "\xff", 6 + 1 + 1},
	} {
		entry := checkEntry(t, frontier.Item{URL: c.url, Host: c.host})
		if len(entry) != c.length {
			t.Errorf("the entry of %q has %d bytes, want %d", c.url, len(entry), c.length)
		}
	}
	full := checkEntry(t, frontier.Item{
		URL: "http://a.test/", Host: "a.test", Depth: 65535, Hops: 255, Priority: frontier.PriorityAsset, Class: 255,
		Attempts: 255, Deliveries: 254, Added: 1<<16 - 2, Round: 1<<32 - 1, Referrer: frontier.Referrer{1},
		Submission: strings.Repeat("s", frontier.MaxSubmission),
	})
	if full[1] != 255 || full[2] != 254 {
		t.Errorf("attempts and deliveries are %d and %d, want bytes 1 and 2 to be 255 and 254", full[1], full[2])
	}
}

func TestDecodeEntryRefusesDamage(t *testing.T) {
	whole := string(appendEntry(nil, &frontier.Item{
		URL: "https://b.test:1/", Host: "a.test", Depth: 300, Hops: 1, Class: 1, Round: 300, Referrer: frontier.Referrer{1},
	}))
	for n := range len(whole) - 1 {
		if it, err := decodeEntry(whole[:n], "a.test", testHasher); err == nil {
			t.Errorf("decodeEntry of the first %d bytes of %q = %+v, want an error", n, whole, it)
		}
	}
	for _, entry := range []string{
		"\x06\x00\x00\x00\x00\x00/",                     // priority 3
		"\x00\x00\x00\x00\x00\xff\xff\xff\x7f/",         // depth beyond 65535
		"\x00\x00\x00\x00\x00\x80\x80\x80\x80\x80\x80/", // depth without end
	} {
		if it, err := decodeEntry(entry, "a.test", testHasher); err == nil {
			t.Errorf("decodeEntry(%q) = %+v, want an error", entry, it)
		}
	}
}

// FuzzEntry: decoding the entry of an item returns the item.
func FuzzEntry(f *testing.F) {
	f.Add("https://a.test/x?y", "a.test", uint16(3), uint8(1), uint8(1), uint8(1), uint32(1), uint64(7))
	f.Add("http://[::1]:80/", "", uint16(0), uint8(0), uint8(9), uint8(0), uint32(0), uint64(0))
	f.Fuzz(func(t *testing.T, url, host string, depth uint16, hops, priority, class uint8, round uint32, referrer uint64) {
		it := frontier.Item{
			URL: url, Host: host, Depth: depth, Hops: hops, Priority: frontier.Priority(priority % frontier.Priorities),
			Class: frontier.Class(class), Attempts: hops ^ 1, Deliveries: class ^ 2, Added: frontier.Moment(depth ^ 3), Round: round,
		}
		for i := range it.Referrer {
			it.Referrer[i] = byte(referrer >> (8 * i))
		}
		checkEntry(t, it)
	})
}

// FuzzDecodeEntry: no input causes a panic, and an item that was decoded does not change
// when it is encoded and decoded again.
func FuzzDecodeEntry(f *testing.F) {
	f.Add("\x03\x00\x00\x00\x00\x01/path", "a.test")
	f.Add("\xff\x01\x02\x00\x07\x80\x01\x05\x06\x07\x01\x02\x03\x04\x05\x06\x07\x08\x01b/", "a.test")
	f.Fuzz(func(t *testing.T, entry, host string) {
		it, err := decodeEntry(entry, host, testHasher)
		if err != nil {
			return
		}
		again, err := decodeEntry(string(appendEntry(nil, &it)), host, testHasher)
		if err != nil || again != it {
			t.Errorf("%q decodes to %+v, this encoded and decoded again to %+v, %v", entry, it, again, err)
		}
	})
}
