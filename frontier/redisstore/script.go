package redisstore

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/internal/redisbits"
)

// files has the Lua files. Each begins with a description of its keys, arguments and reply.
//
//go:embed *.lua
var files embed.FS

func lua(name string) string {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// allowOOM is the first line of a script that also runs when the server is full.
const allowOOM = "#!lua flags=allow-oom\n"

var (
	addScript      = newScript("add", "", redisbits.Block)
	peekScript     = newScript("peek", "no-writes")
	checksScript   = newScript("checks", "no-writes")
	holdScript     = newScript("hold", "allow-oom")
	expireScript   = newScript("expire", "allow-oom", lua("host"), lua("free"))
	readyScript    = newScript("ready", "allow-oom", lua("host"), lua("free"))
	leaseScript    = newScript("lease", "allow-oom", lua("host"), lua("place"))
	extendScript   = newScript("extend", "allow-oom", lua("host"), lua("place"))
	completeScript = newScript("complete", "allow-oom", lua("host"), lua("free"), lua("place"))
	confirmScript  = newScript("confirm", "allow-oom")
	readmitScript  = newScript("readmit", "")
	turnScript     = newScript("turn", "allow-oom")
	retryScript    = newScript("retry", "", lua("host"), lua("free"))
	moveScript     = newScript("move", "allow-oom")

	// scripts are those above. Each node loads all of them together.
	scripts = []*script{
		addScript, peekScript, checksScript, holdScript, expireScript, readyScript, leaseScript, extendScript, completeScript,
		confirmScript, retryScript, moveScript, readmitScript, turnScript,
	}

	// These scripts can safely be repeated, so they are sent like any other command.
	beatScript     = redis.NewScript(allowOOM + lua("beat"))
	journalScript  = redis.NewScript(allowOOM + lua("journal"))
	journalsScript = redis.NewScript(lua("journals"))
	recreateScript = redis.NewScript(lua("recreate"))
	reserveScript  = redis.NewScript(lua("reserve"))
	rosterScript   = redis.NewScript(lua("roster"))
	versionScript  = redis.NewScript(allowOOM + lua("version"))
	writeScript    = redis.NewScript(allowOOM + lua("write"))
)

// script is a Lua script that runs on a node.
type script struct {
	name  string // name of its file, without .lua
	flags string // for Redis: "no-writes", "allow-oom", or empty
	text  string
}

// newScript returns a script whose text is prelude.lua, then the parts that it shares with other
// scripts, and last its own file.
func newScript(name, flags string, shared ...string) *script {
	sc := &script{name: name, flags: flags, text: lua("prelude")}
	for _, part := range append(shared, lua(name)) {
		sc.text += part + "\n"
	}
	return sc
}

// textIn returns the text to load in the epoch with the run id runID. The text begins with a
// shebang line. Without that line, a server that is short of memory would begin the script
// and stop it in the middle.
func (sc *script) textIn(runID string, edit func(script, text string) string) string {
	shebang := "#!lua"
	if sc.flags != "" {
		shebang += " flags=" + sc.flags
	}
	text := sc.text
	if edit != nil {
		text = edit(sc.name, text)
	}
	return shebang + "\nlocal EPOCH = '" + runID + "'\n" + text
}

// write runs a command that writes a few bytes to a key, even if the server is full.
func (s *Store) write(ctx context.Context, command, key string, args ...any) *redis.Cmd {
	return writeScript.Run(ctx, s.client, []string{key}, append([]any{command}, args...)...)
}

func sha(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
