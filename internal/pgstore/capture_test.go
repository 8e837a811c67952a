package pgstore_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	pagerecord "github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/internal/pgstore"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// guide returns the SQL blocks of docs/guide/cdc.md.
func guide(t *testing.T) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/guide/cdc.md")
	must(t, err)
	for _, block := range strings.Split(string(text), "```sql\n")[1:] {
		statements, _, _ := strings.Cut(block, "```")
		blocks = append(blocks, statements)
	}
	return blocks
}

// captured is a row of crawler.outbox, as it was read from the write-ahead log.
type captured struct{ id, aggregateType, host, kind, payload string }

// follow reads the replication slot that the guide creates, as Debezium does. It calls the
// function take with each insert, until take returns false or an error occurs. It
// acknowledges with some delay, so that a reader that restarts gets some inserts again.
func follow(ctx context.Context, dsn string, take func(captured) bool) error {
	conn, err := pgconn.Connect(ctx, dsn+"&replication=database")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	conn.Frontend().SendQuery(&pgproto3.Query{
		String: `START_REPLICATION SLOT crawler_outbox LOGICAL 0/0 (proto_version '1', publication_names 'crawler_outbox')`,
	})
	if err := conn.Frontend().Flush(); err != nil {
		return err
	}
	var ends []uint64 // end positions of the transactions that were read
	for {
		message, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		switch m := message.(type) {
		case *pgproto3.ErrorResponse:
			return pgconn.ErrorResponseToPgError(m)
		case *pgproto3.CopyData:
			switch body := m.Data[1:]; m.Data[0] {
			case 'k': // keepalive
				if body[16] == 0 || len(ends) < 3 {
					continue
				}
			case 'w': // a part of the log, after its position and time
				switch body = body[24:]; body[0] {
				case 'I':
					if !take(insert(body)) {
						return nil
					}
					continue
				case 'C': // commit: flags, its position, and the position of its end
					ends = append(ends, binary.BigEndian.Uint64(body[10:]))
				default:
					continue
				}
			}
			if len(ends) < 3 {
				continue
			}
			status := []byte{'r'}
			for range 3 { // written, flushed, applied
				status = binary.BigEndian.AppendUint64(status, ends[len(ends)-3])
			}
			status = append(binary.BigEndian.AppendUint64(status, 0), 0)
			conn.Frontend().Send(&pgproto3.CopyData{Data: status})
			if err := conn.Frontend().Flush(); err != nil {
				return err
			}
		}
	}
}

// insert decodes an insert of pgoutput: 'I', the table, 'N' and the number of columns, and
// then for each column 't', its length and its text.
func insert(body []byte) captured {
	columns := make([]string, binary.BigEndian.Uint16(body[6:]))
	rest := body[8:]
	for i := range columns {
		n := 5 + binary.BigEndian.Uint32(rest[1:])
		columns[i], rest = string(rest[5:n]), rest[n:]
	}
	return captured{columns[0], columns[1], columns[2], columns[3], columns[4]}
}

// TestCaptureYieldsRelayedEvents: two workers finish the same records while the reader
// of the write-ahead log restarts and the server is killed. The reader gets one event
// for each stored record, equal to the event that relays send. The events of a host
// come in order, and repeats have the same id and content. After the replication slot is
// lost, the SQL of the guide writes the events again, from the records.
func TestCaptureYieldsRelayedEvents(t *testing.T) {
	records, kills := 300, 2
	if *proof {
		records, kills = 20_000, 40
	}
	server := servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"wal_level": "logical"}})
	cfg := pgstore.Config{DSN: server.DSN(), Crawl: "crawl", Identity: "x7Yz01", Capture: true}
	_, _, err := pgstore.Migrate(t.Context(), cfg)
	must(t, err)
	blocks := guide(t)
	for _, statements := range blocks[:4] { // role and publication, slot, limit, progress
		for statement := range strings.SplitSeq(strings.TrimSpace(statements), ";\n") {
			execute(t, cfg.DSN, statement)
		}
	}
	reader := strings.Replace(server.DSN(), "postgres@", "debezium@", 1)
	set := open(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	seed := rand.Uint64()
	t.Logf("the seed of this run is %d", seed)

	var writing sync.WaitGroup
	for w := range 2 {
		random := rand.New(rand.NewPCG(seed, uint64(w)))
		writing.Go(func() {
			for n := 0; n < records; {
				var batch []*pagerecord.Record
				for range min(1+random.IntN(4), records-n) {
					r := eventstest.Record(n, 5)
					r.Attempts = 1 + w // distinguishes the workers' versions
					batch = append(batch, r)
					n++
				}
				for all := rows(t, batch...); set.Finish(ctx, nil, all) != nil && ctx.Err() == nil; { // the server is down
				}
			}
		})
	}
	killing := make(chan error, 1)
	go func() {
		random := rand.New(rand.NewPCG(seed, 9))
		var faults []error
		for range kills {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(100+random.IntN(300)) * time.Millisecond):
			}
			faults = append(faults, server.Kill(), server.Restart())
		}
		killing <- errors.Join(faults...)
	}()

	got, last := make(map[string]captured), make(map[string]string)
	repeats, readers := 0, 0
	random := rand.New(rand.NewPCG(seed, 10))
	for len(got) < records && ctx.Err() == nil {
		left := 20 + random.IntN(records) // number of inserts until this reader dies
		before := len(got) + repeats
		err := follow(ctx, reader, func(c captured) bool {
			if before, again := got[c.id]; again {
				repeats++
				if c != before {
					t.Errorf("event %s was repeated as %+v, want the same as before: %+v", c.id, c, before)
				}
			} else {
				if before := last[c.host]; c.id < before { // ids of these records are in the order of their numbers
					t.Errorf("event %s of %s came after event %s, want increasing ids", c.id, c.host, before)
				}
				got[c.id], last[c.host] = c, c.id
			}
			left--
			return left > 0 && len(got) < records
		})
		if len(got)+repeats > before {
			readers++
		}
		if reply, ok := errors.AsType[*pgconn.PgError](err); ok && !strings.HasPrefix(reply.Code, "57P") && reply.Code != "55006" {
			// This error of the server is not expected. Codes that begin with 57P are expected,
			// because the server stops and starts. The code 55006 is also expected: the
			// previous reader still has the slot.
			t.Fatal(err)
		}
	}
	must(t, <-killing)
	writing.Wait()
	t.Logf("%d events, %d readers, %d repeats, %d kills", len(got), readers, repeats, kills)

	relayed, _, err := pgstore.Outbox{Store: set}.Read(t.Context(), "", records+1)
	must(t, err)
	if len(relayed) != len(got) || len(got) != records {
		t.Fatalf("%d events were captured and %d can be read by relays, want %d of both", len(got), len(relayed), records)
	}
	same := func(e events.Event, c captured) {
		t.Helper()
		want, err := e.MarshalJSON()
		must(t, err)
		var a, b any
		must(t, errors.Join(json.Unmarshal(want, &a), json.Unmarshal([]byte(c.payload), &b)))
		if !reflect.DeepEqual(a, b) || c.host != e.Host || c.kind != e.Type || c.aggregateType != "page" {
			t.Errorf("captured %+v, want %s", c, want)
		}
	}
	for _, e := range relayed {
		same(e, got[e.ID])
	}
	conn, err := pgx.Connect(t.Context(), server.DSN())
	must(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	var left int
	if must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM crawler.outbox").Scan(&left)); left > 0 {
		t.Errorf("%d events are left in the table crawler.outbox, want 0", left)
	}

	// The slot is lost, with all events that the reader has not acknowledged.
	again := make(map[string]captured)
	for {
		if _, err = conn.Exec(t.Context(), "SELECT pg_drop_replication_slot('crawler_outbox')"); err == nil {
			break
		} // the previous reader still has the slot
	}
	execute(t, cfg.DSN, blocks[1])
	execute(t, cfg.DSN, strings.NewReplacer("_12", "_1", "= 12", "= 1").Replace(blocks[4]))
	must(t, follow(ctx, reader, func(c captured) bool {
		again[c.id] = c
		return len(again) < records
	}))
	for _, e := range relayed {
		same(e, again[e.ID])
	}
}

// TestSubscription: another database gets each event once through a native subscription, as the guide says, although the
// events are written again. Without the guide's trigger, the subscription stops at the first repeat.
func TestSubscription(t *testing.T) {
	server := servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"wal_level": "logical"}})
	cfg := pgstore.Config{DSN: server.DSN(), Crawl: "crawl", Identity: "x7Yz01", Capture: true}
	_, _, err := pgstore.Migrate(t.Context(), cfg)
	must(t, err)
	blocks := guide(t)
	for statement := range strings.SplitSeq(strings.TrimSpace(blocks[0]), ";\n") {
		execute(t, cfg.DSN, statement)
	}
	address := strings.TrimPrefix(server.DSN(), "postgres://postgres@")
	host, port, _ := strings.Cut(address[:strings.IndexByte(address, '/')], ":")
	other := make(map[bool]*pgx.Conn)
	for _, trigger := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "guarded"}[trigger]
		execute(t, cfg.DSN, "CREATE DATABASE "+name)
		execute(t, cfg.DSN, strings.Replace(blocks[1], "crawler_outbox", name, 1))
		conn, err := pgx.Connect(t.Context(), server.Database(name))
		must(t, err)
		defer conn.Close(context.WithoutCancel(t.Context()))
		receiver := blocks[5]
		if !trigger {
			receiver, _, _ = strings.Cut(receiver, "CREATE FUNCTION")
		}
		_, err = conn.Exec(t.Context(), receiver, pgx.QueryExecModeSimpleProtocol)
		must(t, err)
		_, err = conn.Exec(t.Context(), strings.NewReplacer(
			"SUBSCRIPTION crawler_outbox", "SUBSCRIPTION "+name, "slot_name = 'crawler_outbox'", "slot_name = '"+name+"'",
			"host=h dbname=crawls", "host="+host+" port="+port+" dbname=postgres").Replace(blocks[6]))
		must(t, err)
		other[trigger] = conn
	}
	set := open(t, cfg)
	write := func(from, to int) {
		var batch []*pagerecord.Record
		for n := from; n < to; n++ {
			batch = append(batch, eventstest.Record(n, 5))
		}
		must(t, set.Finish(t.Context(), nil, rows(t, batch...)))
	}
	count := func(conn *pgx.Conn) (n int) {
		must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM crawler.outbox").Scan(&n))
		return n
	}
	within := func(conn *pgx.Conn, want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); count(conn) < want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d events arrived within a minute, want %d", count(conn), want)
			}
		}
	}
	write(0, 10)
	within(other[false], 10)
	within(other[true], 10)
	execute(t, cfg.DSN, strings.NewReplacer("_12", "_1", "= 12", "= 1").Replace(blocks[4]))
	write(10, 20)
	within(other[true], 20)
	if n := count(other[false]); n != 10 {
		t.Errorf("without the trigger %d events arrived, want the 10 before the repeats", n)
	}
	for trigger, conn := range other { // before the server ends
		_, err := conn.Exec(context.WithoutCancel(t.Context()), "DROP SUBSCRIPTION "+map[bool]string{false: "plain", true: "guarded"}[trigger])
		must(t, err)
	}
}
