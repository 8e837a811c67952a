package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bloomfrontier/crawler/bench/servers"
)

// The command line on crawls that workers share, against servers of its own:
// REDIS is one as it should be; of the others, which are faulty, only the
// addresses are given. LOCKED wants a password, and lets the user "few" do
// little; EVICTS forgets keys when its memory is used up; SECURE speaks TLS, by
// a certificate that CA vouches for.
func TestRedisScripts(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	locked := servers.Redis(t, servers.RedisOptions{Config: map[string]string{
		"requirepass": "secret", "user": "few on >secret ~* +@read +info +hello +auth +client",
	}})
	evicts := servers.Redis(t, servers.RedisOptions{Config: map[string]string{
		"maxmemory": "64mb", "maxmemory-policy": "allkeys-lru",
	}})
	secure := servers.Redis(t, servers.RedisOptions{TLS: true})
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/redis",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			s := newSite()
			env.Defer(s.close)
			env.Values[siteKey{}] = s
			env.Setenv("SITE", s.server.Listener.Addr().String())
			env.Setenv("REDIS", server.URL())
			env.Setenv("SOCKET", server.Socket())
			env.Setenv("SECURE", secure.Addr())
			env.Setenv("CA", secure.CACert())
			env.Setenv("LOCKED", locked.Addr())
			env.Setenv("EVICTS", evicts.Addr())
			env.Setenv(smallFilter())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits, "stopped": cmdStopped, "heal": cmdHeal, "lines": cmdLines,
		},
	})
}
