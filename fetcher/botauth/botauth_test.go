package botauth

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testKey is the Ed25519 key of RFC 9421, appendix B.1.4.
func testKey(t testing.TB) *Key {
	seed, err := base64.RawURLEncoding.DecodeString("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU")
	if err != nil {
		t.Fatal(err)
	}
	return newKey(ed25519.NewKeyFromSeed(seed))
}

// TestVectors compares with RFC 9421, appendix B.2.6, and with the vectors of draft-ietf-webbotauth-httpsig-protocol-01.
func TestVectors(t *testing.T) {
	key := testKey(t)
	const id = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
	if key.ID() != id {
		t.Errorf("ID = %s, want %s", key.ID(), id)
	}
	const agent = `"https://signature-agent.test"`
	for name, c := range map[string]struct {
		covered   []component
		params    string
		signature string
	}{
		"RFC 9421, B.2.6": {[]component{
			{`"date"`, "Tue, 20 Apr 2021 02:07:55 GMT"}, {`"@method"`, "POST"}, {`"@path"`, "/foo"}, {`"@authority"`, "example.com"},
			{`"content-type"`, "application/json"}, {`"content-length"`, "18"},
		}, `;created=1618884473;keyid="test-key-ed25519"`,
			"wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="},
		"a member of Signature-Agent": {[]component{{`"@authority"`, "example.com"}, {`"signature-agent";key="agent2"`, agent}},
			`;created=1735689600;keyid="` + id + `";alg="ed25519";expires=4889289600;nonce="n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==";tag="web-bot-auth"`,
			"RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg=="},
		"Signature-Agent as a String": {[]component{{`"@authority"`, "example.com"}, {`"signature-agent"`, agent}},
			`;created=1735689600;keyid="` + id + `";alg="ed25519";expires=1735693200;nonce="e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==";tag="web-bot-auth"`,
			"jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA=="},
		"a directory": {[]component{{`"@authority";req`, "signature-agent.test"}, {`"content-digest"`, "sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:"}},
			params{created: time.Unix(1735689600, 0), expires: time.Unix(4889289600, 0), keyID: id, tag: directoryTag}.String(),
			"l6P8R67tm3kujAxbHWio7ll01qrEZ0dKD/WWlGhNYEmTnFZM8Wt0VQ9zqGfvo7T/UMkBxsigzChM1Gpz7gOVBg=="},
	} {
		if _, got := sign(key.private, c.covered, c.params); got != ":"+c.signature+":" {
			t.Errorf("%s: the signature is %s, want %s", name, got, c.signature)
		}
	}
}

// written returns a file with the keys.
func written(t testing.TB, keys Keys) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bot.key")
	if err := keys.Write(file); err != nil {
		t.Fatal(err)
	}
	return file
}

// clock is a time that tests set.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func signer(t testing.TB, keys Keys, reuse time.Duration, at *clock) *Signer {
	t.Helper()
	s, err := newSigner(written(t, keys), "https://bot.test", reuse, at.now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// signedHeader is the header of a request that s signs.
func (s *Signer) header(authority, path string) http.Header {
	h := http.Header{}
	s.Sign(h, "GET", authority, path)
	return h
}

// TestSign: each request is signed for itself, or, with a reuse, for its authority.
func TestSign(t *testing.T) {
	at := &clock{time.Unix(1735689600, 0)}
	keys := Keys{testKey(t)}
	h := signer(t, keys, 0, at).header("example.com", "/a")
	const want = `sig1=("@method" "@authority" "@path" "signature-agent";key="sig1");created=1735689600;expires=1735689660;` +
		`keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";tag="web-bot-auth"`
	if got := h.Get("Signature-Input"); got != want {
		t.Errorf("Signature-Input: %s, want %s", got, want)
	}
	if got := h.Get("Signature-Agent"); got != `sig1="https://bot.test"` {
		t.Errorf("Signature-Agent: %s", got)
	}
	signature, err := base64.StdEncoding.DecodeString(strings.Trim(strings.TrimPrefix(h.Get("Signature"), "sig1="), ":"))
	base := "\"@method\": GET\n\"@authority\": example.com\n\"@path\": /a\n\"signature-agent\";key=\"sig1\": \"https://bot.test\"\n\"@signature-params\": " +
		strings.TrimPrefix(want, "sig1=")
	if err != nil || !ed25519.Verify(testKey(t).private.Public().(ed25519.PublicKey), []byte(base), signature) {
		t.Errorf("Signature %s is not that of\n%s (%v)", h.Get("Signature"), base, err)
	}

	s := signer(t, keys, time.Minute, at)
	first, other := s.header("example.com", "/a"), s.header("example.org", "/a")
	if !strings.Contains(first.Get("Signature-Input"), `("@authority" "signature-agent";key="sig1");created=1735689600;expires=1735689720;`) {
		t.Errorf("with a reuse: %s", first.Get("Signature-Input"))
	}
	at.Time = at.Add(59 * time.Second)
	if again := s.header("example.com", "/b"); again.Get("Signature") != first.Get("Signature") || other.Get("Signature") == first.Get("Signature") {
		t.Error("a signature is not that of all requests to an authority, or that of another authority")
	}
	at.Time = at.Add(time.Second)
	if s.header("example.com", "/b").Get("Signature") == first.Get("Signature") {
		t.Error("a signature is used for longer than the reuse")
	}
}

// TestNonce: what Accept-Signature asks for is in the next request for the path, and only there.
func TestNonce(t *testing.T) {
	for text, nonce := range map[string]string{
		`sig1=("@authority" "@method");created;nonce="a\"b";tag="web-bot-auth"`: `"a\"b"`,
		`x=("@authority");nonce="n"`:                                    `"n"`,
		`a=("@path");tag="other";nonce="m", b=("@authority");nonce="n"`: `"n"`,
		`sig1=("@authority");tag="web-bot-auth"`:                        "",
		`sig1=("@authority");nonce;tag="web-bot-auth"`:                  "",
		`sig1=("@authority");nonce=""`:                                  "",
		`sig1="x";nonce="n"`:                                            "",
		`SIG=(`:                                                         "",
		`sig1=("@authority");nonce="` + strings.Repeat("n", 2000) + `"`: "",
	} {
		s := signer(t, Keys{testKey(t)}, time.Minute, &clock{time.Unix(1735689600, 0)})
		before := s.header("a.test", "/")
		if again := s.Note("a.test", "/", http.Header{"Accept-Signature": {text}}); again != (nonce != "") {
			t.Errorf("%s: Note = %t", text, again)
		}
		other, next, last := s.header("a.test", "/b"), s.header("a.test", "/"), s.header("a.test", "/")
		_, got, _ := strings.Cut(next.Get("Signature-Input"), ";nonce=")
		got, _, _ = strings.Cut(got, ";tag=")
		if got != nonce {
			t.Errorf("%s: the nonce is %s, want %s", text, got, nonce)
		}
		if strings.Contains(other.Get("Signature-Input"), "nonce") || last.Get("Signature") != before.Get("Signature") {
			t.Errorf("%s: the nonce is in more than the next request", text)
		}
	}
}

// TestRotate: the new key signs when its directory has been published, and a Signer reads the file again.
func TestRotate(t *testing.T) {
	at := &clock{time.Unix(1735689600, 0)}
	keys, err := New(at.Time)
	if err != nil {
		t.Fatal(err)
	}
	s := signer(t, keys, 0, at)
	rotated, err := keys.Rotate(at.Time, 24*time.Hour, 48*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := rotated.Write(s.file); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(s.file, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	uses := func(key *Key) bool { return strings.Contains(s.header("a.test", "/").Get("Signature-Input"), key.ID()) }
	if !uses(keys[0]) {
		t.Error("the new key signs before its time")
	}
	at.Time = at.Add(24*time.Hour - time.Second)
	if !uses(keys[0]) {
		t.Error("the new key signs before its time")
	}
	at.Time = at.Add(time.Second)
	if !uses(rotated[0]) {
		t.Error("the new key does not sign at its time")
	}
	for _, c := range []struct {
		after     time.Duration
		published int
	}{{0, 2}, {71 * time.Hour, 2}, {72 * time.Hour, 1}} {
		d, err := rotated.Directory("https://bot.test", time.Unix(1735689600, 0).Add(c.after), time.Hour)
		if got := strings.Count(string(d.Body), `"kid"`); err != nil || got != c.published || strings.Count(d.Header.Get("Signature"), "binding") != got {
			t.Errorf("after %s the directory has %d keys and %s, want %d (%v)", c.after, got, d.Header.Get("Signature"), c.published, err)
		}
		if strings.Contains(string(d.Body), `"d"`) {
			t.Fatal("the directory has a private key")
		}
	}
	if again, err := rotated.Rotate(time.Unix(1735689600, 0).Add(100*time.Hour), 0, 0); err != nil || len(again) != 2 {
		t.Errorf("a key that is over stays: %d keys, %v", len(again), err)
	}
}

// TestRead: files that have no usable key are refused, without a part of a key in the error.
func TestRead(t *testing.T) {
	file := written(t, Keys{testKey(t)})
	if keys, err := Read(file); err != nil || keys[0].ID() != testKey(t).ID() {
		t.Fatalf("%v, %v", keys, err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const openssl = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n-----END PRIVATE KEY-----\n" // RFC 9421, B.1.4
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string // of the error; empty means none
	}{
		"PEM":            {openssl, 0o600, ""},
		"read by others": {string(good), 0o640, "chmod 600"},
		"empty":          {"", 0o600, "neither"},
		"another x":      {strings.Replace(string(good), "JrQL", "JrQM", 1), 0o600, "another x"},
		"without d":      {strings.Replace(string(good), `"d"`, `"e"`, 1), 0o600, "no Ed25519 private key"},
		"a certificate":  {strings.ReplaceAll(openssl, "PRIVATE KEY", "CERTIFICATE"), 0o600, ""},
		"damaged PEM":    {strings.Replace(openssl, "MC4C", "MC4D", 1), 0o600, "PKCS #8"},
	} {
		file := filepath.Join(t.TempDir(), "k")
		if err := os.WriteFile(file, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		keys, err := Read(file)
		if c.want == "" {
			if err != nil || keys[0].ID() != testKey(t).ID() {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if _, is := errors.AsType[*FileError](err); !is || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "n4Ni") {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	for agent, valid := range map[string]bool{
		"https://bot.test": true, "https://bot.test:8443": true, "https://bot.test/.well-known/http-message-signatures-directory": true,
		"https://bot.test/": false, "http://bot.test": false, "bot.test": false, "https://u@bot.test": false, "https://bot.test/a\"b": false, "": false,
	} {
		if err := CheckAgent(agent); (err == nil) != valid {
			t.Errorf("CheckAgent(%q) = %v", agent, err)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	for name, reuse := range map[string]time.Duration{"each": 0, "reuse": time.Minute} {
		b.Run(name, func(b *testing.B) {
			s := signer(b, Keys{testKey(b)}, reuse, &clock{time.Now()})
			for b.Loop() {
				s.header("example.com", "/a")
			}
		})
	}
}
