package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// script is a Lua script that runs on a node. Its file begins with a description of its keys,
// arguments and reply.
type script struct {
	name  string // name of its file, without .lua
	flags string // for Redis: "no-writes", "allow-oom", or empty
	text  string
}

//go:embed prelude.lua
var preludeLua string

// newScript returns a script whose text is prelude.lua and then parts: files that it shares with
// other scripts, and last its own.
func newScript(name, flags string, parts ...string) *script {
	sc := &script{name: name, flags: flags, text: preludeLua}
	for _, part := range parts {
		sc.text += part + "\n"
	}
	return sc
}

// textIn returns the text to load in the epoch with run id run. The text begins with a shebang
// line. Without that line, a server that is short of memory would begin the script and stop it in
// the middle.
func (sc *script) textIn(run string, edit func(script, text string) string) string {
	shebang := "#!lua"
	if sc.flags != "" {
		shebang += " flags=" + sc.flags
	}
	text := sc.text
	if edit != nil {
		text = edit(sc.name, text)
	}
	return shebang + "\nlocal EPOCH = '" + run + "'\n" + text
}

func sha(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// scripts returns all scripts, which are loaded together.
func scripts() []*script {
	return append([]*script{addScript}, leaserScripts...)
}
