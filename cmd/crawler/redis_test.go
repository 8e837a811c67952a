package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestRedisScripts tests the command line with crawls that workers share. It starts its
// own servers, and their addresses are variables of the scripts. REDIS and SOCKET are
// addresses of a usual server. LOCKED requires a password, and allows the user "few" only
// few commands. EVICTS evicts keys when its memory is used up. SECURE uses TLS, with a
// certificate of the authority CA.
func TestRedisScripts(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	locked := servers.Redis(t, servers.RedisOptions{Config: map[string]string{
		"requirepass": "geheim", "user": "few on >geheim ~* +@read +info +hello +auth +client",
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
