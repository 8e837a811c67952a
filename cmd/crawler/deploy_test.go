package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// deploy is the folder of the files with which others run the program.
const deploy = "../../deploy"

// runTool runs a program in the folder deploy. If it is missing, the test is skipped, or fails if CRAWLER_TEST_SERVERS is
// "require".
func runTool(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = deploy
	said, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) && os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, said)
	}
	return string(said)
}

// TestAlertRules: Prometheus accepts the rules, each alert fires for its fault and none in a crawl in order, and the
// queries of the Grafana dashboard are valid. Rules and dashboard name only metrics that there are.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	runTool(t, "promtool", "check", "config", "prometheus.yaml")
	runTool(t, "promtool", "test", "rules", "crawler.rules.test.yaml")
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text := read(t, filepath.Join(deploy, "grafana.json"))
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	var queries strings.Builder
	queries.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	count := 0
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			count++
			fmt.Fprintf(&queries, "      - {record: 'q:%d', expr: '%s'}\n", count, strings.ReplaceAll(target.Expr, "$instance", ".*"))
		}
	}
	if count < 20 {
		t.Errorf("the dashboard has %d queries, want 20 or more", count)
	}
	rules := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(rules, []byte(queries.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	runTool(t, "promtool", "check", "rules", rules)

	documented := string(read(t, "../../docs/reference/metrics.md"))
	for _, file := range []string{"grafana.json", "crawler.rules.yaml"} {
		for _, name := range regexp.MustCompile(`crawler_[a-z_]+`).FindAllString(string(read(t, filepath.Join(deploy, file))), -1) {
			name = strings.TrimSuffix(name, "_bucket")
			if !regexp.MustCompile("(?m)^\\* `" + name + "[`{]").MatchString(documented) {
				t.Errorf("%s names %s, which is no metric", file, name)
			}
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestSystemdUnit: systemd accepts the unit and finds little that it could take away from it, and the command of the unit
// runs a crawl.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unit := string(read(t, filepath.Join(deploy, "crawler@.service")))
	start := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(unit)
	if start == nil {
		t.Fatal("the unit has no ExecStart")
	}
	program, err := exec.LookPath("crawler")
	if err != nil {
		t.Fatal(err)
	}
	installed := filepath.Join(dir, "crawler@shop.service")
	if err := os.WriteFile(installed, []byte(strings.Replace(unit, "/usr/bin/crawler", program, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := runTool(t, "systemd-analyze", "verify", installed); strings.TrimSpace(said) != "" {
		t.Errorf("systemd-analyze verify: %s", said)
	}
	runTool(t, "systemd-analyze", "security", "--offline=true", "--threshold=15", installed) // tenths; 100 is the most exposed

	for name, text := range map[string]string{"shop.yaml": "scope: any\ndelay: 1ms\nconnect-to: ['*=" + smallWeb(t) + "']\n", "shop.txt": "http://h000000.test/\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := strings.NewReplacer("%S/crawler", dir, "/etc/crawler", dir, "%i", "shop", "/usr/bin/crawler", program).Replace(start[1])
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	name, value := smallFilter()
	cmd.Env = append(os.Environ(), name+"="+value)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", command, err, said)
	}
	if n := bytes.Count(read(t, filepath.Join(dir, "shop", "pages.jsonl")), []byte("\n")); n < 60 {
		t.Errorf("the service has crawled %d pages, want 60 or more", n)
	}
}

// smallWeb serves 60 pages on 5 hosts, and returns the address.
func smallWeb(t *testing.T) string {
	t.Helper()
	web, err := testweb.New(testweb.Config{Seed: 1, Hosts: 5, Pages: 60})
	if err != nil {
		t.Fatal(err)
	}
	return listen(t, func(l net.Listener) error { return web.Serve(t.Context(), l) })
}

// TestCompose: docker-compose accepts the file, and the commands and variables of its workers, run beside a Redis and a
// Postgres of their own, share a crawl.
func TestCompose(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Command     any
			Environment map[string]string
		}
	}
	if err := yaml.Unmarshal([]byte(runTool(t, "docker-compose", "--file", "compose.yaml", "config")), &compose); err != nil {
		t.Fatal(err)
	}
	queue := servers.Redis(t, servers.RedisOptions{})
	postgres := servers.Postgres(t, servers.PostgresOptions{Password: "secret"})
	dir, web := t.TempDir(), smallWeb(t)
	for name, text := range map[string]string{"seeds": "http://h000000.test/\n", "password": "secret\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	local := func(worker string) *strings.Replacer {
		return strings.NewReplacer(
			"/crawls", filepath.Join(dir, worker), "/seeds.txt", filepath.Join(dir, "seeds"), "0.0.0.0:9090", "127.0.0.1:0",
			"redis://redis:6379", queue.URL(), "/run/secrets/postgres-password", filepath.Join(dir, "password"),
			"postgres://crawler@postgres/crawler?sslmode=disable", strings.Replace(postgres.DSN(), ":secret@", "@", 1))
	}
	var workers []*exec.Cmd
	said := make(map[*exec.Cmd]*bytes.Buffer)
	var env []string
	for name, service := range compose.Services {
		if !strings.HasPrefix(name, "worker-") {
			continue
		}
		command, isText := service.Command.(string)
		if !isText {
			t.Fatalf("the command of %s is %v, want a text", name, service.Command)
		}
		filter, value := smallFilter()
		env = append(os.Environ(), filter+"="+value, "CRAWLER_SCOPE=any", "CRAWLER_DELAY=1ms", "CRAWLER_CONNECT_TO=*="+web)
		for variable, value := range service.Environment {
			env = append(env, variable+"="+local(name).Replace(value))
		}
		cmd := exec.CommandContext(t.Context(), "crawler", strings.Fields(local(name).Replace(command))...)
		cmd.Env, said[cmd] = env, new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = said[cmd], said[cmd]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		workers = append(workers, cmd)
	}
	if len(workers) != 3 {
		t.Errorf("%d workers, want 3", len(workers))
	}
	for _, cmd := range workers {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", cmd, err, said[cmd])
		}
	}
	audit := exec.CommandContext(t.Context(), "crawler", "status", "--audit", "--json")
	audit.Env = env
	out, err := audit.Output()
	if err != nil {
		t.Fatalf("status --audit: %v\n%s", err, out)
	}
	var result struct {
		Balanced bool
		Terms    []struct {
			Term    string
			Counted float64
		}
	}
	if err := json.Unmarshal(out, &result); err != nil || !result.Balanced {
		t.Fatalf("audit %s: %v", out, err)
	}
	for _, term := range result.Terms {
		if term.Term == "records" && term.Counted < 60 {
			t.Errorf("%g records, want 60 or more", term.Counted)
		}
	}
}
