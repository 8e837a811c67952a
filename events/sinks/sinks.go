// Package sinks opens the sink that a URL names. It owns the form of these URLs, and the
// list of the settings that each sink has.
package sinks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/jsonl"
	"github.com/bloomfrontier/crawler/events/kafka"
	"github.com/bloomfrontier/crawler/events/nats"
	"github.com/bloomfrontier/crawler/events/sqs"
	"github.com/bloomfrontier/crawler/events/webhook"
	"github.com/bloomfrontier/crawler/fetcher/get"
)

// Config has the settings of all sinks. Open returns an error if a field other than Stdout
// is set, and the sink of the URL does not have this setting. The zero value works for all
// sinks except "-".
type Config struct {
	Stdout          io.Writer     // "-": the writer; required
	Secrets         [][]byte      // webhook: sign requests
	Batch           bool          // webhook: many events in a request
	Binary          bool          // webhook: attributes as headers; see webhook.Config
	ContentType     string        // webhook: of requests
	CAFile          string        // webhook, NATS, Kafka, SQS: certificates of authorities (PEM), in addition to the system's
	Create          bool          // NATS, Kafka, SQS: create the stream, topic or queue if it is missing
	Window          time.Duration // NATS: the duplicate window of a created stream; 0 means 1 h
	CredentialsFile string        // NATS: the user's token and key; SQS: keys, see sqs.FileCredentials
	TransactionalID string        // Kafka: commit the cursor with the events
	Compression     string        // Kafka: the codec, one of kafka.Codecs; empty means gzip
	Timeout         time.Duration // webhook, NATS, Kafka, SQS: longest time until an acknowledgement; 0 means 30 s
}

// Open returns the sink for a URL. The URL "-" is the sink that writes JSON lines to
// Config.Stdout. The other forms of URLs are
//
//	https://HOST/PATH                           a webhook; http:// on a loopback address
//	nats://[USER:PASSWORD@]HOST[,HOST]/STREAM   a stream of NATS JetStream; tls:// over TLS
//	kafka://[USER:PASSWORD@]HOST[,HOST]/TOPIC   a topic of Kafka; kafka+tls:// over TLS
//	sqs://[KEYID:SECRET@]HOST/ACCOUNT/QUEUE     a FIFO queue of SQS over TLS; sqs+http:// on a loopback address
//
// HOST can have a port. STREAM and TOPIC are "crawler" if they are missing. A Kafka URL can
// have the option ?sasl=plain, ?sasl=scram-sha-256 or ?sasl=scram-sha-512. A SQS URL can have the option ?region=NAME.
//
// Open makes no connection. If the receiver does not answer, Send returns an
// *events.AwayError. No error contains the URL, because the URL can have a password or a
// token.
func Open(_ context.Context, sinkURL string, cfg Config) (events.Sink, error) {
	scheme, rest, _ := strings.Cut(sinkURL, "://")
	if sinkURL == "-" {
		scheme = "-"
	}
	if err := cfg.check(scheme); err != nil {
		return nil, err
	}
	var trust *tls.Config
	if cfg.CAFile != "" {
		var err error
		if trust, err = authorities(cfg.CAFile); err != nil {
			return nil, err
		}
	}
	switch scheme {
	case "-":
		if cfg.Stdout == nil {
			return nil, errors.New("sink: there is no standard output (Stdout)")
		}
		return jsonl.New(cfg.Stdout), nil
	case "https", "http":
		return webhook.New(webhook.Config{
			URL: sinkURL, Secrets: cfg.Secrets, Batch: cfg.Batch, Binary: cfg.Binary, ContentType: cfg.ContentType,
			Timeout: cfg.Timeout, TLS: trust,
		})
	case "nats", "tls":
		at, err := parse(rest, "4222")
		if err != nil {
			return nil, err
		}
		if len(at.options) > 0 {
			return nil, errors.New("sink: the URL of a NATS stream has no options")
		}
		return nats.New(nats.Config{
			Servers: at.hosts, User: at.user, Stream: at.path, Create: cfg.Create, Window: cfg.Window,
			CredentialsFile: cfg.CredentialsFile, TLS: tlsConfig(scheme == "tls", trust), Timeout: cfg.Timeout,
		})
	case "sqs", "sqs+http":
		return openSQS(scheme, rest, trust, cfg)
	default: // check has refused all other schemes
		at, err := parse(rest, "9092")
		if err != nil {
			return nil, err
		}
		sasl := at.options.Get("sasl")
		if at.options.Del("sasl"); len(at.options) > 0 {
			return nil, errors.New("sink: the URL of a Kafka topic has no option but sasl")
		}
		return kafka.New(kafka.Config{
			Brokers: at.hosts, User: at.user, SASL: sasl, Topic: at.path, Create: cfg.Create,
			TransactionalID: cfg.TransactionalID, Compression: cfg.Compression, TLS: tlsConfig(scheme == "kafka+tls", trust), Timeout: cfg.Timeout,
		})
	}
}

// openSQS opens the sink of a queue.
func openSQS(scheme, rest string, trust *tls.Config, cfg Config) (events.Sink, error) {
	at, err := parse(rest, "443")
	if err != nil {
		return nil, err
	}
	region := at.options.Get("region")
	if at.options.Del("region"); len(at.options) > 0 || len(at.hosts) != 1 {
		return nil, errors.New("sink: the URL of a queue has one host, and no option but region")
	}
	config := sqs.Config{QueueURL: "https://" + strings.TrimSuffix(at.hosts[0], ":443") + "/" + at.path, Region: region,
		Create: cfg.Create, TLS: trust, Timeout: cfg.Timeout}
	if scheme == "sqs+http" {
		host, _, _ := net.SplitHostPort(at.hosts[0])
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return nil, errors.New("sink: sqs+http:// is without TLS, so readable by others: it is for a loopback address")
		}
		config.QueueURL = "http://" + at.hosts[0] + "/" + at.path
	}
	switch secret, known := at.user.Password(); {
	case cfg.CredentialsFile != "":
		config.Credentials = sqs.FileCredentials(cfg.CredentialsFile)
		if _, err := config.Credentials.Retrieve(context.Background()); err != nil {
			return nil, fmt.Errorf("sink: %w", err)
		}
	case known:
		config.Credentials = sqs.StaticCredentials(at.user.Username(), secret)
	default:
		return nil, errors.New("sink: a queue of SQS needs KEYID:SECRET@ in its URL, or a credentials file")
	}
	return sqs.New(config)
}

// schemes are the schemes of the URLs that Open accepts.
var schemes = strings.Fields("- https http nats tls kafka kafka+tls sqs sqs+http")

// check returns an error if the scheme is unknown, or if c sets a field that sinks with this
// scheme do not use.
func (c Config) check(scheme string) error {
	if !slices.Contains(schemes, scheme) {
		return errors.New("sink: want -, https://HOST/PATH, nats://HOST/STREAM, kafka://HOST/TOPIC (tls:// and kafka+tls:// over TLS) or sqs://HOST/ACCOUNT/QUEUE.fifo")
	}
	if c.CAFile != "" && slices.Contains(strings.Fields("http nats kafka sqs+http"), scheme) {
		return fmt.Errorf("sink: %s:// is without TLS: there is no certificate to verify", scheme)
	}
	kind := "a sink of " + scheme + "://"
	if scheme == "-" {
		kind = "standard output"
	}
	for _, setting := range []struct {
		words   string
		set     bool
		schemes string // of the sinks that have the setting
	}{
		{"secret for signatures", len(c.Secrets) > 0, "https http"},
		{"batches", c.Batch, "https http"},
		{"binary mode", c.Binary, "https http"},
		{"content type", c.ContentType != "", "https http"},
		{"certificates", c.CAFile != "", "https tls kafka+tls sqs"},
		{"request to make it", c.Create, "nats tls kafka kafka+tls sqs sqs+http"},
		{"duplicate window", c.Window != 0, "nats tls"},
		{"credentials file", c.CredentialsFile != "", "nats tls sqs sqs+http"},
		{"transactional id", c.TransactionalID != "", "kafka kafka+tls"},
		{"compression", c.Compression != "", "kafka kafka+tls"},
		{"timeout", c.Timeout != 0, "https http nats tls kafka kafka+tls sqs sqs+http"},
	} {
		if setting.set && !slices.Contains(strings.Fields(setting.schemes), scheme) {
			return fmt.Errorf("sink: %s takes no %s", kind, setting.words)
		}
	}
	return nil
}

// address has the parts of the URL of a NATS or Kafka sink. Package net/url does not parse
// URLs with several hosts with ports.
type address struct {
	user    *url.Userinfo
	hosts   []string // HOST:PORT
	path    string
	options url.Values
}

func parse(rest, port string) (at address, err error) {
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if strings.Contains(path, "@") || strings.Contains(query, "@") {
		return at, errors.New("sink: the URL has an @ behind a / or ?: write %2F, %3F and %40 for these characters of a user or password")
	}
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		u, err := url.Parse("user://" + hosts[:i+1] + "host")
		if err != nil {
			return at, errors.New("sink: user and password of the URL are malformed: write %XX for special characters")
		}
		at.user, hosts = u.User, hosts[i+1:]
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		if strings.HasPrefix(host, ":") {
			return at, errors.New("sink: the URL names no host")
		}
		at.hosts = append(at.hosts, host)
	}
	if at.options, err = url.ParseQuery(query); err != nil {
		return at, errors.New("sink: the options of the URL are malformed")
	}
	at.path = path
	return at, nil
}

// tlsConfig returns the configuration of a connection over TLS, or nil for a connection
// without TLS.
func tlsConfig(encrypted bool, trust *tls.Config) *tls.Config {
	if encrypted && trust == nil {
		return new(tls.Config)
	}
	return trust
}

// authorities returns a configuration that trusts the certificates of a file, in addition
// to the system's.
func authorities(path string) (*tls.Config, error) {
	roots, err := get.RootCAs(path)
	if err != nil {
		return nil, fmt.Errorf("sink: %s: %w", path, err)
	}
	return &tls.Config{RootCAs: roots}, nil
}
