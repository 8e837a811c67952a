package cli

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl/seed"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/trap"
)

// Bounds of flags that no package below has.
const (
	maxHostConcurrency = 1024
	maxURLs            = 1e12
	leastRate          = 1e-12
	maxSize            = 1 << 50
)

// Words of messages about flags for times and sizes.
const (
	timeOrZero   = "a time of 0 or more with its unit, such as 1s or 500ms"
	timeNotZero  = "a time of more than 0 with its unit, such as 1s or 500ms"
	timeFromMsec = "a time of 1ms or more with its unit, such as 500ms or 30s"
	sizeToPiB    = "a size from 1B to 1PiB, such as 512KiB or 10MiB"
)

// forever is the longest time that a flag can hold.
const forever = time.Duration(math.MaxInt64)

// restrict has each flag of a crawl refuse what is wrong whatever the other
// flags say. The message then names the flag, the variable or the line that has
// the value, as checks of several flags at once cannot.
func (o *options) restrict(f *pflag.FlagSet) {
	o.restrictNumbers(f)
	o.webOptions.restrict(f)
	o.restrictTexts(f)
}

func (o *options) restrictNumbers(f *pflag.FlagSet) {
	restrict.Within(f, "delay", &o.delay, 0, forever, timeOrZero)
	restrict.Within(f, "max-crawl-delay", &o.maxCrawlDelay, 0, forever, timeOrZero)
	restrict.Within(f, "max-time", &o.maxTime, 0, forever, timeOrZero)
	restrict.Within(f, "grace", &o.grace, 0, forever, timeOrZero)
	restrict.Within(f, "timeout", &o.timeout, time.Millisecond, forever, timeFromMsec)
	restrict.Within(f, "backoff", &o.backoff, 1, forever, timeNotZero)
	restrict.Within(f, "backoff-max", &o.backoffMax, 1, forever, timeNotZero)
	restrict.Flag(f, "lease-time", "0, or a time of 2s or more", func() bool { return o.leaseTime == 0 || o.leaseTime >= 2*time.Second })

	restrict.Within(f, "urls", &o.urls, 1, maxURLs, "a whole number from 1 to 1e12, such as 250000, 10M or 1e9")
	restrict.Within(f, "fpr", &o.fpr, leastRate, 1, "a probability from 1e-12 to 0.99, such as 1e-6, 0.1% or '1 in 1000000'")
	restrict.Within(f, "max-body", &o.maxBody, 1, maxSize, sizeToPiB)
	restrict.Within(f, "rotate", &o.rotate, 1, maxSize, sizeToPiB)
	restrict.Within(f, "max-depth", &o.maxDepth, unlimited, math.MaxUint16, "a whole number from -1 to 65535")
	restrict.Within(f, "latency-factor", &o.latencyFactor, 0, math.MaxFloat64, "a number of 0 or more")
	restrict.Within(f, "rate", &o.rate, 0, math.MaxFloat64, "a number of 0 or more")
	restrict.Within(f, "host-concurrency", &o.hostConcurrent, 1, maxHostConcurrency, "a whole number from 1 to 1024")
	restrict.Within(f, "concurrency", &o.concurrency, 0, maxConcurrency, "auto, or a whole number from 1 to 100000")
	restrict.Within(f, "retries", &o.retries, 0, 100, "a whole number from 0 to 100")
	restrict.Within(f, "dead-after", &o.deadAfter, 0, math.MaxInt, "a whole number of 0 or more")
	restrict.Within(f, "checkpoint-adds", &o.checkpoint, 0, math.MaxInt, "a whole number of 0 or more")
	restrict.Within(f, "partitions", &o.partitions, 1, maxPartitions, "a whole number from 1 to 16384")
	restrict.Within(f, "redis-wait", &o.redisWait, 0, math.MaxInt, "a whole number of 0 or more")
}

func (o *webOptions) restrict(f *pflag.FlagSet) {
	const most, words = 1 << 20, "a whole number from 0 to 1048576"
	restrict.Within(f, "max-url-bytes", &o.maxURL, 0, most, words)
	restrict.Within(f, "max-path-repeats", &o.maxRepeats, 0, most, words)
	restrict.Within(f, "max-params", &o.maxParams, 0, most, words)
	restrict.Within(f, "max-years-ahead", &o.maxAhead, trap.NoLimit, most, "a whole number from -1 to 1048576")
	restrict.Within(f, "header-timeout", &o.headerTimeout, time.Millisecond, forever, timeFromMsec)
	restrict.Within(f, "min-rate", &o.minRate, 0, maxSize, "0 for no limit, or "+sizeToPiB)
	restrict.Within(f, "memory", &o.memory, 1, maxSize, sizeToPiB)
	restrict.Within(f, "save-rotate", &o.saveRotate, 1, maxSize, sizeToPiB)
}

func (o *options) restrictTexts(f *pflag.FlagSet) {
	check := func(name, want string, fault func(text string) error) {
		restrict.Check(f, name, func(text string) error {
			if fault(text) != nil {
				return errors.New("want " + want)
			}
			return nil
		})
	}
	restrict.Check(f, "include", checkRegexp)
	restrict.Check(f, "exclude", checkRegexp)
	restrict.Check(f, "header", checkHeaderFlag)
	restrict.Check(f, "seeds", checkURLFile)
	restrict.Check(f, "known", checkURLFile)
	restrict.Flag(f, "user-agent", "a name that site owners can look up, without control characters", func() bool {
		return o.userAgent != "" && httpguts.ValidHeaderFieldValue(o.userAgent)
	})
	restrict.Flag(f, "contact", "a URL or an address, without control characters", func() bool { return httpguts.ValidHeaderFieldValue(o.contact) })
	check("types", "content types in lower case, such as text/html,application/pdf, or * for any", func(text string) error {
		_, err := get.New(get.Config{Types: []string{text}})
		return err
	})
	check("connect-to", "PATTERN=ADDR[:PORT], such as '*.example.org=127.0.0.1:8080'", func(text string) error {
		_, err := get.ParseConnectTo(text)
		return err
	})
	check("allow-net", "a network, such as 10.1.0.0/16", func(text string) error {
		_, err := netip.ParsePrefix(text)
		return err
	})
	check("proxy", "http, https or socks5, then ://[USER:PASSWORD@]HOST[:PORT]", func(text string) error {
		_, err := get.New(get.Config{Proxy: text})
		return err
	})
	check("dns", "an IP address, with or without a port, such as 127.0.0.53 or [::1]:53", func(text string) error {
		_, err := get.New(get.Config{DNS: text})
		return err
	})
	check("admin", "PORT or ADDR:PORT, such as 9090 or 127.0.0.1:9090", func(text string) error {
		_, err := adminAddress(text)
		return err
	})
	check("admin-host", "a host's name or IP address without a port, such as metrics.example.org", func(text string) error {
		if _, _, err := net.SplitHostPort(text); err == nil || hostOf(text) == "" {
			return errors.New("not a host")
		}
		return nil
	})
	check("allow-port", "ports from 1 to 65535, such as 25,6379", func(text string) error {
		if port, err := strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
			return errors.New("not a port")
		}
		return nil
	})
	check("crash-at", "POINT:N", func(text string) error {
		_, err := crashHook(text)
		return err
	})
	check("worker", crawlNameWords, func(text string) error {
		if !crawlName.MatchString(text) {
			return errors.New("not a name")
		}
		return nil
	})
}

func checkRegexp(text string) error {
	if _, err := regexp.Compile(text); err != nil {
		return fmt.Errorf("want a regular expression: %w", err)
	}
	return nil
}

// checkHeaderFlag does not show the header's value: it may be secret.
func checkHeaderFlag(text string) error {
	name, content, ok := strings.Cut(text, ":")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return errors.New("want 'NAME: VALUE', such as 'Accept-Language: en'")
	}
	if err := checkHeaders(map[string]string{name: strings.TrimSpace(content)}); err != nil {
		return fmt.Errorf("want 'NAME: VALUE', such as 'Accept-Language: en': %w", err)
	}
	return nil
}

// checkURLFile checks the name of a file of URLs.
func checkURLFile(text string) error {
	const want = "want a file with one URL a line"
	if strings.Contains(text, "://") {
		return fmt.Errorf("%s; a URL is an argument: %s crawl %s", want, program(), shellQuote(seed.Shown(text)))
	}
	if text == "-" { // stdin
		return nil
	}
	info, err := os.Stat(text)
	switch cause := errors.Unwrap(err); {
	case cause != nil: // without the name, which the message has
		return fmt.Errorf("%s: %w", want, cause)
	case err == nil && info.IsDir():
		return errors.New(want + ": it is a directory")
	}
	return err
}
