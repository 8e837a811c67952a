// Package botauth signs a crawler's requests, so that the owner of a site can recognise the crawler (Web Bot Auth).
//
// A signature proves who sends a request. It does not make a site answer: that is its owner's decision.
//
// The package follows RFC 9421 (HTTP Message Signatures), RFC 7638 and RFC 8037 (the names of keys), and
// draft-ietf-webbotauth-httpsig-protocol-01. It owns the keys and their file, the directory of public keys that the
// crawler's operator publishes, and the three header fields of a request. It makes no request (package get).
package botauth

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// DirectoryPath is where an origin publishes its directory.
const DirectoryPath = "/.well-known/http-message-signatures-directory"

// DirectoryType is the media type of a directory.
const DirectoryType = "application/http-message-signatures-directory+json"

// The tags of signatures, which say what they are for.
const (
	requestTag   = "web-bot-auth"
	directoryTag = "http-message-signatures-directory"
)

// component is a part of a message that a signature covers, as a line of its base (RFC 9421, section 2.5).
type component struct {
	name  string // with its parameters, such as "signature-agent";key="sig1"
	value string
}

// params are the parameters of a signature.
type params struct {
	created time.Time
	expires time.Time
	keyID   string
	nonce   string // without it if empty
	tag     string
}

// String returns the parameters as they follow the list of components.
func (p params) String() string {
	text := fmt.Sprintf(";created=%d;expires=%d;keyid=%q", p.created.Unix(), p.expires.Unix(), p.keyID)
	if p.nonce != "" {
		text += ";nonce=" + quoted(p.nonce)
	}
	return text + fmt.Sprintf(";tag=%q", p.tag)
}

// sign signs the components with the parameters. It returns the members of Signature-Input and Signature.
func sign(private ed25519.PrivateKey, covered []component, params string) (input, signature string) {
	var base, list strings.Builder
	for i, c := range covered {
		if i > 0 {
			list.WriteByte(' ')
		}
		list.WriteString(c.name)
		base.WriteString(c.name + ": " + c.value + "\n")
	}
	input = "(" + list.String() + ")" + params
	base.WriteString(`"@signature-params": ` + input)
	return input, ":" + base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(base.String()))) + ":"
}

// quoted returns a String of RFC 9651. The text is printable ASCII.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
