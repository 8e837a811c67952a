package bloomstore

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// The expected fingerprints come from OpenSSL's SipHash (openssl mac -macopt size:16
// SIPHASH). The fingerprints for the key 00 01 02 … and the inputs 00 01 02 … are also
// published with the reference implementation of SipHash-2-4-128. Fingerprints are
// stored: these values must not change without a new format version.

func TestFingerprintGolden(t *testing.T) {
	const counting, random = "000102030405060708090a0b0c0d0e0f", "8f3a5c9e01b7d2640f1e2d3c4b5a6978"
	for _, c := range []struct{ key, input, want string }{
		{counting, "", "a3817f04ba25a8e66df67214c7550293"},
		{counting, "\x00", "da87c1d86b99af44347659119b22fc45"},
		{counting, "\x00\x01\x02\x03\x04\x05\x06", "a1f1ebbed8dbc153c0b84aa61ff08239"},
		{counting, "\x00\x01\x02\x03\x04\x05\x06\x07", "3b62a9ba6258f5610f83e264f31497b4"},
		{random, "https://example.org/wiki/Bloom_filter?action=history&offset=20", "e9cf4e1ba1da09e82c9fb252f7b33577"},
		{random, "https://example.org/café", "bcd58f9342bc1ded4c6f534d8c6b2527"},
	} {
		got := NewHasher(keyFrom(t, c.key)).Fingerprint(c.input)
		if hex.EncodeToString(got[:]) != c.want {
			t.Errorf("Fingerprint(%q) under key %s = %x, want %s", c.input, c.key, got, c.want)
		}
	}
	if got := (Hasher{}).Fingerprint("https://example.org/"); hex.EncodeToString(got[:]) != "546ed829c5ce3c354f1fca980e1fcb86" {
		t.Errorf("Hasher{}.Fingerprint(\"https://example.org/\") = %x, want 546ed829c5ce3c354f1fca980e1fcb86", got)
	}
}

// TestFingerprintVectors covers inputs of 0 to 63 bytes: every length of the last block,
// after zero to seven whole blocks.
func TestFingerprintVectors(t *testing.T) {
	hasher := NewHasher(keyFrom(t, "000102030405060708090a0b0c0d0e0f"))
	all := sha256.New()
	var input []byte
	for i := range 64 {
		got := hasher.Fingerprint(string(input))
		all.Write(got[:])
		input = append(input, byte(i))
	}
	const want = "ecfaa9fe47ff788fa834a9863ea2715a2880cd37d2b8c3c194402838428119b9" // for the 64 results of OpenSSL
	if got := hex.EncodeToString(all.Sum(nil)); got != want {
		t.Errorf("SHA-256 of the 64 vectors is %s, want %s", got, want)
	}
}

func TestNewKeyDiffers(t *testing.T) {
	if a, b := NewKey(), NewKey(); a == b || a == (Key{}) {
		t.Errorf("NewKey returned %x and then %x, want different keys", a, b)
	}
}

func TestFingerprintDoesNotAllocate(t *testing.T) {
	hasher, url := NewHasher(NewKey()), "https://example.org/wiki/Bloom_filter"
	if n := testing.AllocsPerRun(100, func() { hasher.Fingerprint(url) }); n != 0 {
		t.Errorf("Fingerprint allocates %v times, want 0", n)
	}
}

func keyFrom(t *testing.T, s string) (key Key) {
	t.Helper()
	if n, err := hex.Decode(key[:], []byte(s)); n != len(key) || err != nil {
		t.Fatalf("key %q was decoded to %d bytes, %v", s, n, err)
	}
	return key
}
