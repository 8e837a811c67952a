package botauth

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/internal/durable"
)

// Key is an Ed25519 key.
type Key struct {
	private ed25519.PrivateKey
	id      string
	// From is when requests are signed with the key for the first time, to the second. The key is published before.
	From time.Time
	// Until is when the key is published for the last time, to the second. Zero means without an end.
	Until time.Time
}

// Keys are the keys of a crawler, the newest first. Later keys replace earlier ones, whose signatures may be on their
// way, or their directory in a cache.
type Keys []*Key

// ErrNoKey reports that no key signs requests at the time.
var ErrNoKey = errors.New("botauth: no key is valid now")

// New returns one new key, which signs from now on.
func New(now time.Time) (Keys, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	key := newKey(private)
	key.From = now.Truncate(time.Second)
	return Keys{key}, nil
}

func newKey(private ed25519.PrivateKey) *Key {
	k := &Key{private: private}
	sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":"Ed25519","kty":"OKP","x":"%s"}`, k.public()))
	k.id = base64.RawURLEncoding.EncodeToString(sum[:])
	return k
}

// ID returns the name of the key, its thumbprint: 43 characters.
func (k *Key) ID() string { return k.id }

func (k *Key) public() string {
	return base64.RawURLEncoding.EncodeToString(k.private.Public().(ed25519.PublicKey))
}

func (k *Key) published(now time.Time) bool { return k.Until.IsZero() || now.Before(k.Until) }

// At returns the key that signs requests at the time: the newest one whose time has come. The error is ErrNoKey.
func (k Keys) At(now time.Time) (*Key, error) {
	for _, key := range k {
		if !now.Before(key.From) && key.published(now) {
			return key, nil
		}
	}
	return nil, ErrNoKey
}

// Rotate returns the keys with a new one, which signs requests after the duration publish. Before that, its directory
// must be published. The earlier keys are published for the duration keep longer. Keys that are over are left out.
func (k Keys) Rotate(now time.Time, publish, keep time.Duration) (Keys, error) {
	rotated, err := New(now.Add(publish))
	if err != nil {
		return nil, err
	}
	for _, key := range k {
		if !key.published(now) {
			continue
		}
		earlier := *key
		if end := now.Add(publish + keep).Truncate(time.Second); earlier.Until.IsZero() || earlier.Until.After(end) {
			earlier.Until = end
		}
		rotated = append(rotated, &earlier)
	}
	return rotated, nil
}

// jwk is a key as JSON (RFC 7517, RFC 8037). Directories have no D.
type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	ID        string `json:"kid"`
	X         string `json:"x"`
	D         string `json:"d,omitempty"`
	Use       string `json:"use,omitempty"`
	NotBefore int64  `json:"nbf,omitempty"` // s since 1970
	Expires   int64  `json:"exp,omitempty"`
}

type jwks struct {
	Keys []jwk `json:"keys"`
}

func (k *Key) jwk() jwk {
	j := jwk{Type: "OKP", Curve: "Ed25519", ID: k.ID(), X: k.public(), Use: "sig", NotBefore: k.From.Unix()}
	if !k.Until.IsZero() {
		j.Expires = k.Until.Unix()
	}
	return j
}

// FileError reports a file that has no keys.
type FileError struct {
	File string
	Err  error
}

// Error implements error.
func (e *FileError) Error() string { return fmt.Sprintf("key file %s: %v", e.File, e.Err) }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

const maxKeyFile = 1 << 20

// Read reads the keys in a file that Write wrote, or the Ed25519 key in a PEM file (PKCS #8), as openssl genpkey
// writes it. The file must be readable by its owner only. The error is a *FileError; it has no part of a key.
func Read(file string) (Keys, error) {
	keys, err := read(file)
	if err != nil {
		return nil, &FileError{file, err}
	}
	return keys, nil
}

func read(file string) (Keys, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("others than its owner can read it (mode %04o): chmod 600 it", mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(text); block != nil {
		private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		key, ok := private.(ed25519.PrivateKey)
		if err != nil || !ok {
			return nil, fmt.Errorf("it has no Ed25519 private key (PKCS #8), but a %s", block.Type)
		}
		read := newKey(key)
		read.From = time.Unix(0, 0)
		return Keys{read}, nil
	}
	var set jwks
	if json.Unmarshal(text, &set) != nil || len(set.Keys) == 0 {
		return nil, errors.New("it is neither a key set of crawler key nor PEM")
	}
	var keys Keys
	for i, j := range set.Keys {
		seed, err := base64.RawURLEncoding.DecodeString(j.D)
		if err != nil || len(seed) != ed25519.SeedSize || j.Type != "OKP" || j.Curve != "Ed25519" {
			return nil, fmt.Errorf("key %d is no Ed25519 private key (kty OKP, crv Ed25519, d of 32 bytes)", i+1)
		}
		key := newKey(ed25519.NewKeyFromSeed(seed))
		key.From = time.Unix(j.NotBefore, 0)
		if j.X != key.public() {
			return nil, fmt.Errorf("key %d has another x than its d gives", i+1)
		}
		if j.Expires != 0 {
			key.Until = time.Unix(j.Expires, 0)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Write replaces the file by one with these keys, which only its owner can read. After a crash, the file is the one of
// before or the new one.
func (k Keys) Write(file string) error {
	var set jwks
	for _, key := range k {
		j := key.jwk()
		j.D = base64.RawURLEncoding.EncodeToString(key.private.Seed())
		set.Keys = append(set.Keys, j)
	}
	text, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		return err
	}
	return durable.ReplacePrivate(vfs.Default, file, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}
