package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/filter"
	"github.com/bloomfrontier/crawler/events/kafka"
	"github.com/bloomfrontier/crawler/events/signature"
	"github.com/bloomfrontier/crawler/events/sinks"
	"github.com/bloomfrontier/crawler/events/webhook"
	"github.com/bloomfrontier/crawler/internal/name"
)

// defaultRelay is the name of a relay if no name is given.
const defaultRelay = "default"

// eventFlags say which events of a crawl are delivered, and where.
type eventFlags struct {
	prefix string // prefix of the flags' names; "events-" for a crawl, otherwise empty
	flags  *pflag.FlagSet

	to     string // URL of the sink, which may contain a secret: see shown
	sink   sinks.Config
	secret string // name of the file with the secret of a webhook

	relay events.Config
	from  string
	types []string
	where []string
}

// name returns the full name of a flag. The flag "to" of a crawl is --events.
func (f *eventFlags) name(plain string) string {
	if f.prefix != "" && plain == "to" {
		return strings.TrimSuffix(f.prefix, "-")
	}
	return f.prefix + plain
}

// declare returns a flag set for a command about events. Its flags have no prefix.
func (f *eventFlags) declare(add func(flags *pflag.FlagSet, prefix string)) *pflag.FlagSet {
	flags := pflag.NewFlagSet("events", pflag.ContinueOnError)
	add(flags, "")
	return flags
}

// addTo declares all flags.
func (f *eventFlags) addTo(flags *pflag.FlagSet, prefix string) {
	f.addSink(flags, prefix)
	flags.StringVar(&f.relay.Name, f.name("relay"), defaultRelay, "store the cursor of this relay under `NAME`")
	restrict.Check(flags, f.name("relay"), func(text string) error {
		if events.CheckName(text) != nil {
			return errors.New("want " + name.Form + ", no dot first")
		}
		return nil
	})
	flags.StringVar(&f.from, f.name("from"), "", "`WHERE` a new relay begins: now, a time such as 2026-01-02T15:04:05Z, or a cursor (default the beginning)")
	restrict.Check(flags, f.name("from"), parsed(fromOf))
	flags.StringSliceVar(&f.types, f.name("types"), nil, "deliver events of these `TYPES` only: page.done, page.failed, page.dropped (default the first two)")
	restrict.Check(flags, f.name("types"), func(text string) error {
		_, err := filter.Parse([]string{text}, nil)
		return err
	})
	flags.StringArrayVar(&f.where, f.name("filter"), nil, "deliver events of this `CONDITION` only (repeatable; docs/reference/events.md)")
	restrict.Check(flags, f.name("filter"), func(text string) error {
		_, err := filter.Parse(nil, []string{text})
		return err
	})
}

// addSink declares the flags that say where events go.
func (f *eventFlags) addSink(flags *pflag.FlagSet, prefix string) {
	f.prefix, f.flags = prefix, flags
	help := "deliver to `URL`: https:// (webhook), nats:// (JetStream), kafka://, sqs:// (FIFO queue), or - for lines of JSON on stdout"
	if prefix != "" {
		help = "deliver events of pages during the crawl to `URL`: https:// (webhook), nats:// (JetStream), kafka://, sqs:// (FIFO queue), or - for stdout"
	}
	flags.StringVar(&f.to, f.name("to"), "", help)
	restrict.Check(flags, f.name("to"), checkSink)
	flags.StringVar(&f.secret, f.name("webhook-secret-file"), "", "sign requests of a webhook with the secret in `FILE`, or with each of several (base64 of 24 to 64 bytes)")
	flags.BoolVar(&f.sink.Batch, f.name("batch"), false, "send many events to a webhook in one request")
	flags.StringVar(&f.sink.ContentType, f.name("content-type"), "", "`TYPE` of requests to a webhook, such as application/json (default the types of CloudEvents)")
	restrict.Check(flags, f.name("content-type"), func(text string) error {
		if err := webhook.CheckContentType(text); err != nil {
			return errors.New("want a type of JSON, such as application/json")
		}
		return nil
	})
	flags.BoolVar(&f.sink.Binary, f.name("binary"), false, "send a webhook the attributes of an event as headers and its record as the body")
	flags.StringVar(&f.sink.CredentialsFile, f.name("credentials-file"), "", "log in to NATS or SQS with the credentials in `FILE`")
	flags.BoolVar(&f.sink.Create, f.name("create"), false, "create the NATS stream, the Kafka topic or the SQS queue if there is none")
	restrict.Number(flags, &f.sink.Window, f.name("duplicate-window"), 0, "how long a new NATS stream drops repeated events (default 1h)", time.Second, forever, "a time of 1s or more with its unit, such as 10m or 1h")
	flags.StringVar(&f.sink.TransactionalID, f.name("transactional-id"), "", "deliver to Kafka in transactions of this `ID`, which also store the cursor")
	checkText(flags, f.name("transactional-id"), "printable characters without spaces", func(text string) error {
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
			return errors.New("not an id")
		}
		return nil
	})
	flags.StringVar(&f.sink.Compression, f.name("compression"), "", "`CODEC` of batches for Kafka: "+strings.Join(kafka.Codecs(), ", ")+" (default gzip)")
	checkText(flags, f.name("compression"), "one of "+strings.Join(kafka.Codecs(), ", "), func(text string) error {
		if !slices.Contains(kafka.Codecs(), text) {
			return errors.New("no codec")
		}
		return nil
	})
	flags.StringVar(&f.sink.CAFile, f.name("ca"), "", "trust the certificates in `FILE` (PEM) too, beside the system's")
	restrict.Number(flags, &f.sink.Timeout, f.name("timeout"), 0, "how long an acknowledgement may take (default 30s)", time.Millisecond, forever, timeFromMsec)
}

// adoptEnvironment sets flags that the command line does not have. The values come from
// the variables that a crawl uses for the same flags: CRAWLER_EVENTS for --to, and
// CRAWLER_EVENTS_RELAY, for example, for --relay. For the flags of a crawl,
// adoptEnvironment does nothing, because readLayers reads their variables.
func (f *eventFlags) adoptEnvironment() error {
	if f.prefix != "" {
		return nil
	}
	like := eventFlags{prefix: "events-"}
	l := newLayers(f.flags)
	var errs []error
	f.flags.VisitAll(func(flag *pflag.Flag) {
		name := envName(like.name(flag.Name))
		errs = append(errs, l.readVariable(flag.Name, name, os.Getenv(name)))
	})
	return errors.Join(errs...)
}

// checkSink returns an error if its argument is not the URL of a sink. It makes no
// connection.
func checkSink(to string) error {
	sink, err := sinks.Open(context.Background(), to, sinks.Config{Stdout: io.Discard})
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "sink: "))
	}
	return sink.Close()
}

// config opens the sink, and returns the config of the relay.
func (f *eventFlags) config(ctx context.Context, stdout io.Writer) (config events.Config, err error) {
	if err := f.adoptEnvironment(); err != nil {
		return config, usage(err)
	}
	config = f.relay
	if config.From, err = fromOf(f.from); err != nil {
		return config, usage(err)
	}
	if config.Keep, err = filter.Parse(f.types, f.where); err != nil {
		return config, usage(err)
	}
	config.Sink, err = f.open(ctx, stdout)
	return config, err
}

// open opens the sink.
func (f *eventFlags) open(ctx context.Context, stdout io.Writer) (events.Sink, error) {
	if err := f.adoptEnvironment(); err != nil {
		return nil, usage(err)
	}
	if f.to == "" {
		return nil, usage(fmt.Errorf("deliver where? Name it with --%s URL, or - for stdout", f.name("to")))
	}
	secret, err := readPassword(f.name("webhook-secret-file"), f.secret)
	if err != nil {
		return nil, usage(err)
	}
	config := f.sink
	config.Stdout = stdout
	if f.secret != "" {
		if config.Secrets, err = signature.ParseSecrets(secret); err != nil {
			return nil, usage(fmt.Errorf("--%s %s: %w", f.name("webhook-secret-file"), f.secret, err))
		}
	}
	sink, err := sinks.Open(ctx, f.to, config)
	if err != nil {
		return nil, usage(fmt.Errorf("--%s: %w", f.name("to"), err))
	}
	return sink, nil
}

// shown returns "stdout", or the URL of the sink without secrets.
func (f *eventFlags) shown() string {
	if f.to == "-" {
		return "stdout"
	}
	shown, _ := withoutSecret("to", f.to)
	return shown
}

// cursorForm matches a cursor: a position in the events of a crawl. Its forms are described in
// docs/reference/events.md.
var cursorForm = regexp.MustCompile(`^(\d+-\d+(\+\d+-\d+)*|\d+/\d+)$`)

// fromOf parses the value of --from. It checks only the form of a cursor. Whether the crawl
// can read events from this position is checked later.
func fromOf(text string) (from events.From, err error) {
	switch {
	case text == "":
		return from, nil
	case text == "now":
		return events.From{Now: true}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return events.From{Time: at}, nil
		}
	}
	if !cursorForm.MatchString(text) {
		return from, errors.New("want now, a time such as 2026-01-02T15:04:05Z, or a cursor: FILE-OFFSET such as 3-1048576, or XID/SEQUENCE such as 812/4")
	}
	return events.From{Cursor: events.Cursor(text)}, nil
}
