package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestWrongInput: wrong input is reported in one line, with its source (such as a flag or
// a line of a file), the given value, and the valid values.
func TestWrongInput(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"private.yaml": "allow-private: yes\n",
		"seeds.yaml":   "# a list\nseeds: [http://a.test/, http://b.test/]\n",
		"help.yaml":    "help: true\n",
		"twice.yaml":   "delay: [1s, 2s]\n",
		"number.yaml":  "rate: fast\nmax-dept: 3\n",
		"seeds.txt":    "http://a.test/\n",
		"broken.pem":   "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"x.crawl/a":    "",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ line, env, want string }{
		{"crawl --delay 1 a.test", "", `--delay is "1", want a time of 0 or more with its unit, such as 1s or 500ms`},
		{"crawl --delay -1s a.test", "", `--delay is "-1s", want a time of 0 or more`},
		{"crawl --timeout 0 a.test", "", `--timeout is "0", want a time of 1ms or more`},
		{"crawl --types foo a.test", "", `--types is "foo", want content types in lower case, such as text/html,application/pdf, or * for any`},
		{"crawl --types text/html,foo a.test", "", `--types is "text/html,foo", want content types`},
		{"crawl --admin foo a.test", "", `--admin is "foo", want PORT or ADDR:PORT, such as 9090 or 127.0.0.1:9090`},
		{"crawl --config private.yaml a.test", "", `private.yaml:1: allow-private is "yes", want true or false`},
		{"crawl --max-pages -1 a.test", "", `--max-pages is "-1", want 0 for no limit, or a whole number`},
		{"crawl --urls 1e15 a.test", "", `--urls is "1e15", want a whole number from 1 to 1e12, such as`},
		{"crawl --concurrency many a.test", "", `--concurrency is "many", want auto, or a whole number from 1 to 100000`},
		{"crawl --rate NaN a.test", "", `--rate is "NaN", want a number of 0 or more`},
		{"crawl --sort-query=yes a.test", "", `--sort-query is "yes", want true or false`},
		{"crawl --connect-to x a.test", "", `--connect-to is "x", want PATTERN=ADDR[:PORT], such as`},
		{"crawl --allow-net 10.0.0.1 a.test", "", `--allow-net is "10.0.0.1", want a network, such as 10.1.0.0/16`},
		{"crawl --dns ns.test a.test", "", `--dns is "ns.test", want an IP address`},
		{"crawl --ca none.pem a.test", "", `--ca is "none.pem", want a file with certificates in PEM form: no such file`},
		{"crawl --ca seeds.txt a.test", "", `--ca is "seeds.txt", want a file with certificates in PEM form: it has none`},
		{"crawl --ca broken.pem a.test", "", `--ca is "broken.pem", want a file with certificates in PEM form: certificate 1 there: x509`},
		{"crawl --insecure-host a.test:443 a.test", "", `--insecure-host is "a.test:443", want a host without a port`},
		{"crawl --insecure-host https://a.test a.test", "", `--insecure-host is "https://a.test", want a host without a port`},
		{"crawl --include ( a.test", "", `--include is "(", want a regular expression: error parsing regexp`},
		{"crawl -H Bearer-geheim a.test", "", `--header is malformed, want 'NAME: VALUE'`},
		{"crawl --proxy ftp://u:geheim@h a.test", "", `--proxy is malformed, want http, https or socks5, then`},
		{"crawl --redis http://:geheim@h --name x a.test", "", `--redis is malformed, want redis://`},
		{"status --postgres mysql://u:geheim@h", "", `--postgres is malformed, want postgres://`},
		{"crawl --seeds http://a.test/", "", `--seeds is "http://a.test/", want a file with one URL a line; a URL is an argument`},
		{"crawl --seeds none a.test", "", `--seeds is "none", want a file with one URL a line: no such file`},
		{"crawl --config seeds.yaml", "", `seeds.yaml:2: seeds is "http://a.test/,http://b.test/", want a file with one URL a line`},
		{"crawl --config twice.yaml a.test", "", `twice.yaml:1: delay has 2 values, want one`},
		{"crawl --config number.yaml a.test", "", `number.yaml:1: rate is "fast", want a number of 0 or more`},
		{"crawl --config number.yaml a.test", "", `number.yaml:2: unknown key "max-dept", did you mean max-depth?`},
		{"crawl --config help.yaml a.test", "", "help.yaml:1: unknown key \"help\"\n"},
		{"crawl --depth 3 a.test", "", `unknown flag: --depth, did you mean --max-depth?`},
		{"crawl --max-dept 3 a.test", "", `unknown flag: --max-dept, did you mean --max-depth?`},
		{"crawl -depth 3 a.test", "", `unknown flag: -depth, did you mean --max-depth?`},
		{"crawl a.test --delay", "", `--delay has no value, want --delay duration`},
		{"--max-pages=3", "", `--max-pages is a flag of crawl, want`},
		{"http://u:geheim@a.test/", "", `crawl 'http://…@a.test/'`},
		{"http://a.test/", "", `"http://a.test/" is a URL, want a command before it:`},
		{"crwal http://a.test/", "", `unknown command "crwal", did you mean crawl?`},
		{"dedup foo.txt", "", `"foo.txt" is an argument, want URLs on stdin, as in: crawler dedup < foo.txt`},
		{"dedup --urls 1e15", "", `--urls is "1e15", want a whole number from 1 to`},
		{"dedup --print both", "", `--print is "both", want input or canonical`},
		{"status x.crawl", "", `"x.crawl" is an argument, want none with crawler status (the directory of a crawl goes after --dir)`},
		{"explain", "", `0 arguments, want one URL`},
		{"report --probe 0s", "", `--probe is "0s", want a time of more than 0`},
		{"relay --to - --from tomorrow", "", `--from is "tomorrow", want now, a time such as`},
		{"relay --to - --from 3-", "", `--from is "3-", want now, a time such as`},
		{"crawl --events - --events-from 2026-01-02T15:04 a.test", "", `--events-from is "2026-01-02T15:04", want now, a time such as`},
		{"size --delay 1", "", `--delay is "1", want a time of 0 or more`},
		{"output --dir x.crawl --columns url,url", "", `--columns: column url is named twice`},
		{"size --block 65", "", `--block is "65", want a multiple of 32`},
		{"crawl --dir seeds.txt a.test", "", `seeds.txt/crawl.json: not a directory`},
		{"status --dir seeds.txt", "", `seeds.txt`},
		{"bench --budget 1", "", `--budget is "1", want a time of more than 0`},
		{"bench --redis redis", "", `--redis is malformed, want redis://`},
		{"help nosuch", "", `unknown command "nosuch"`},
		{"help crwal", "", `unknown command "crwal", did you mean crawl?`},
		{"completion zssh", "", `unknown command "zssh", did you mean zsh`},
		{"relay dead lits", "", `unknown command "lits", did you mean list?`},
		{"testweb --hosts 0", "", `--hosts is "0", want a whole number from 1`},
		{"testweb --listen 8080", "", `--listen is "8080", want ADDR:PORT`},
		{"crawl seeds.txt", "", `argument "seeds.txt" is a file here, want --seeds seeds.txt to read seeds from it`},
		{"config seeds.txt", "", `argument "seeds.txt" is a file here`},
		{"seed seeds.txt", "", `argument "seeds.txt" is a file here`},
		{"crawl /etc/passwd", "", `argument "/etc/passwd" is a file here, want --seeds /etc/passwd`},
		{"crawl /etc/nothing", "", `argument "/etc/nothing" is no URL: it begins with a slash; want a URL such as`},
		{"crawl foo:", "", `argument "foo:" is no URL: the text after the colon is no port; want`},
		{"crawl url,title,date", "", `argument "url,title,date" is no URL: "url,title,date" cannot be a host; want`},
		{"crawl http://u:ge/heim@a.test/", "", `argument "http://…@a.test/" is no URL`},

		{"crawl a.test", "CRAWLER_DELAY=1", `CRAWLER_DELAY is "1", want a time of 0 or more`},
		{"crawl a.test", "CRAWLER_TYPES=text/html,foo", `CRAWLER_TYPES is "text/html,foo", want content types`},
		{"crawl a.test", "CRAWLER_PROXY=u:geheim@h", `CRAWLER_PROXY is malformed, want http, https or socks5`},
		{"crawl a.test", "CRAWLER_DELAYS=1s", `CRAWLER_DELAYS names no flag of crawl, did you mean CRAWLER_DELAY?`},
		{"crawl a.test", "CRAWLER_DELY=1s", "CRAWLER_DELY names no flag of crawl, did you mean CRAWLER_DELAY?\n"},
		{"crawl a.test", "CRAWLER_HELP=1", "CRAWLER_HELP names no flag of crawl\n"},
		{"config a.test", "CRAWLER_JSON=1", "CRAWLER_JSON names no flag of crawl"},
		{"crawl a.test", "CRAWLER_PARTITIONS=3", `CRAWLER_PARTITIONS is for a crawl in Redis`},
		{"crawl --backoff 1h a.test", "CRAWLER_BACKOFF_MAX=1m", `CRAWLER_BACKOFF_MAX is 1m0s, want at least the 1h0m0s of --backoff`},
		{"status", "CRAWLER_REDIS=geheim", `CRAWLER_REDIS is malformed, want redis://`},
	} {
		t.Run(test.line+" "+test.env, func(t *testing.T) {
			if name, value, ok := strings.Cut(test.env, "="); ok {
				t.Setenv(name, value)
			}
			code, out, errs := run(t, "", strings.Fields(test.line)...)
			if code != exitUsage || !strings.Contains(errs, test.want) {
				t.Errorf("exit code %d, want %d and in stderr\n%s\ngot\n%s%s", code, exitUsage, test.want, out, errs)
			}
			for line := range strings.Lines(errs) {
				if strings.Count(line, test.want) == 1 && !strings.HasPrefix(line, "crawler: ") {
					t.Errorf("line %q, want it to begin with \"crawler: \"", line)
				}
			}
			if strings.Contains(out+errs, "heim") {
				t.Errorf("the output contains a password: %s%s", out, errs)
			}
		})
	}
}

// TestEachFlagSaysWhatItWants: each flag of each command refuses an invalid value with a
// message of the same form, never with the words of a Go parser. Only flags that accept
// any text are left out.
func TestEachFlagSaysWhatItWants(t *testing.T) {
	t.Parallel()
	anyText := regexp.MustCompile("(?i)file|dir|name|`log`|`host` key|where|parameter|url or address|system's")
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if !c.Hidden && c.Name() != "completion" {
				c.Flags().VisitAll(func(f *pflag.Flag) { testFlag(t, c, f, anyText) })
				visit(c)
			}
		}
	}
	visit(newRoot(streams{}))
}

func testFlag(t *testing.T, cmd *cobra.Command, f *pflag.Flag, anyText *regexp.Regexp) {
	err := f.Value.Set("\x01(")
	plain := slices.Contains([]string{"string", "stringArray"}, f.Value.Type()) && anyText.MatchString(f.Usage)
	if err == nil {
		if !plain && f.Name != "window" { // the classes of --window are those of --exact, which can come later
			t.Errorf("%s --%s accepts \"\\x01(\", which is not a valid value", cmd.Name(), f.Name)
		}
		return
	}
	good := regexp.MustCompile(`^--` + f.Name + ` (is "\\x01\("|is malformed)(, want |: ).+$`)
	parser := regexp.MustCompile(`strconv|parsing "|time:|invalid argument|get:|testweb:`)
	if said := badValue("--"+f.Name, f, "\x01(", err).Error(); !good.MatchString(said) || parser.MatchString(said) {
		t.Errorf("%s: message %q, want one that matches %s and not %s", cmd.Name(), said, good, parser)
	}
}
