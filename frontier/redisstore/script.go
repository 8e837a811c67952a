package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// script is one operation on a node: a file of Lua that begins with its contract.
type script struct {
	name  string // of its file, without .lua
	flags string // for Redis: "no-writes", "allow-oom", or empty
	text  string
}

//go:embed prelude.lua
var preludeLua string

// newScript returns a script whose text is its parts, one after the other: fragments of other
// files, then its own.
func newScript(name, flags string, parts ...string) *script {
	sc := &script{name: name, flags: flags, text: preludeLua}
	for _, part := range parts {
		sc.text += part + "\n"
	}
	return sc
}

// textIn returns the text to load in one epoch. Without a line of flags a script would begin when
// memory is short, and be stopped in the middle.
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
