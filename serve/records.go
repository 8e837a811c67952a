package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/frontier"
)

const (
	streamWrite = 30 * time.Second // for a part of a stream
	heartbeat   = 15 * time.Second
	pollEvery   = time.Second // for new events
	eventsRead  = 100         // at once
)

type pageInput struct {
	Named
	Cursor string `query:"cursor" maxLength:"100000" doc:"next of the page before; empty means the beginning"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

// Records is a page of records.
type Records struct {
	Records []json.RawMessage `json:"records" doc:"oldest first; a URL has one record for each round"`
	Next    string            `json:"next" doc:"the cursor of the next page; a page without records is the end for now"`
}

// Events is a page of events.
type Events struct {
	Events []json.RawMessage `json:"events" doc:"CloudEvents, oldest first"`
	Next   string            `json:"next" doc:"the cursor of the next page; a page without events is the end for now"`
}

type streamInput struct {
	Named
	After string `header:"Last-Event-ID" maxLength:"100000" doc:"the id of the last event that the client has"`
	From  string `query:"from" enum:"beginning,now" default:"beginning" doc:"where a stream without Last-Event-ID begins"`
}

// routeRecords adds the routes of records and events.
func (s *Server) routeRecords() {
	tags := []string{"records"}
	handle(s, huma.Operation{
		OperationID: "list-records", Method: http.MethodGet, Path: "/v1/crawls/{crawl}/records", Tags: tags,
		Summary: "List the records of all rounds",
	}, Read, plain, func(ctx context.Context, in *pageInput) (*answer[Records], error) {
		all, next, err := s.readEvents(ctx, in)
		out := Records{Records: []json.RawMessage{}, Next: next}
		for i := range all {
			out.Records = append(out.Records, all[i].Data)
		}
		return body(out, err)
	})
	handle(s, huma.Operation{
		OperationID: "stream-latest-records", Method: http.MethodGet, Path: "/v1/crawls/{crawl}/records/latest", Tags: tags,
		Summary: "Get the latest record of each URL", Responses: text("application/x-ndjson", "a line of JSON for each record"),
		Description: "The records are those at the time of the request. If the body ends without the trailer field Crawler-End: whole, it was cut off.",
	}, Read, stream, s.latest)
	handle(s, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: "/v1/crawls/{crawl}/events", Tags: tags, Summary: "List the events",
	}, Read, plain, func(ctx context.Context, in *pageInput) (*answer[Events], error) {
		all, next, err := s.readEvents(ctx, in)
		out := Events{Events: []json.RawMessage{}, Next: next}
		for i := range all {
			text, err := all[i].MarshalJSON()
			if err != nil {
				return nil, err
			}
			out.Events = append(out.Events, text)
		}
		return body(out, err)
	})
	handle(s, huma.Operation{
		OperationID: "stream-events", Method: http.MethodGet, Path: "/v1/crawls/{crawl}/events/stream", Tags: tags,
		Summary: "Get events as they come", Responses: text("text/event-stream", "server-sent events: id is a cursor, data a CloudEvent"),
		Description: "A client that was cut off sends the id of its last event as Last-Event-ID.",
	}, Read, stream, s.follow)
}

// outbox opens the outbox of a crawl.
func (s *Server) outbox(ctx context.Context, crawlName string) (crawl.Outbox, func(), error) {
	m, h, err := s.fleet.open(ctx, crawlName)
	if err == nil {
		err = s.fleet.runner.checkRecords(ctx, m)
	}
	if err != nil {
		return crawl.Outbox{}, nil, err
	}
	boxes, err := h.Outboxes(ctx)
	if err != nil {
		return crawl.Outbox{}, nil, err
	}
	list, err := boxes.List(ctx)
	if err != nil {
		return crawl.Outbox{}, nil, errors.Join(err, boxes.Close())
	}
	return list[0], func() { _ = boxes.Close() }, nil // only reads
}

// readEvents reads a page of events.
func (s *Server) readEvents(ctx context.Context, in *pageInput) ([]events.Event, string, error) {
	box, release, err := s.outbox(ctx, in.Crawl)
	if err != nil {
		return nil, "", err
	}
	defer release()
	all, next, err := box.Read(ctx, events.Cursor(in.Cursor), in.Limit)
	return all, string(next), cursorFault(err)
}

// cursorFault returns the problem of an error of reading after a cursor.
func cursorFault(err error) error {
	_, gone := errors.AsType[*events.GoneError](err)
	switch {
	case err == nil, errors.Is(err, frontier.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case gone:
		return newProblem("cursor-gone", "the cursor is after the end of the records, or a file of records is missing")
	}
	return newProblem("invalid", "cursor: it is not one of this crawl")
}

// latest streams the latest record of each URL.
func (s *Server) latest(ctx context.Context, in *Named) (*huma.StreamResponse, error) {
	m, h, err := s.fleet.open(ctx, in.Crawl)
	if err == nil {
		err = s.fleet.runner.checkRecords(ctx, m)
	}
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		_, w := humago.Unwrap(hctx)
		ctx, cancel := s.untilEnding(hctx.Context())
		defer cancel()
		control, out := http.NewResponseController(w), bufio.NewWriterSize(w, 64<<10)
		begun := false
		err := h.Snapshot(ctx, crawl.Selection{Once: true, Temp: s.root.temp()}, func(records iter.Seq2[[]byte, error]) error {
			begun = true
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.Header().Set("Trailer", "Crawler-End")
			for line, err := range records {
				if err != nil {
					return err
				}
				if out.Available() < len(line) {
					_ = control.SetWriteDeadline(time.Now().Add(streamWrite)) // there is none without a connection
				}
				if _, err := out.Write(line); err != nil {
					return err
				}
			}
			_ = control.SetWriteDeadline(time.Now().Add(streamWrite))
			return out.Flush()
		})
		switch {
		case err == nil:
			w.Header().Set("Crawler-End", "whole")
		case !begun:
			s.problemOf(ctx, err).write(w)
		case ctx.Err() == nil:
			s.cfg.Logger.Warn("a stream of records was cut off", slog.String("crawl", in.Crawl), slog.Any("err", err))
		}
	}}, nil
}

// untilEnding returns a context that also ends when the Server ends.
func (s *Server) untilEnding(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := make(chan struct{})
	go func() {
		select {
		case <-s.ending:
			cancel()
		case <-stop:
		}
	}()
	return ctx, func() {
		close(stop)
		cancel()
	}
}

// follow streams events.
func (s *Server) follow(ctx context.Context, in *streamInput) (*huma.StreamResponse, error) {
	box, release, err := s.outbox(ctx, in.Crawl)
	if err != nil {
		return nil, err
	}
	after := events.Cursor(in.After)
	if in.After == "" && in.From == "now" {
		after, err = box.Find(ctx, time.Time{})
	}
	var first []events.Event
	next := after
	if err == nil {
		first, next, err = box.Read(ctx, after, eventsRead) // a cursor that is wrong has a problem as its answer
		err = cursorFault(err)
	}
	if err != nil {
		release()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer release()
		_, w := humago.Unwrap(hctx)
		ctx, cancel := s.untilEnding(hctx.Context())
		defer cancel()
		w.Header().Set("Content-Type", "text/event-stream")
		f := follower{s, in.Crawl, w, http.NewResponseController(w)}
		if f.send(first) == nil {
			f.run(ctx, box, next)
		}
	}}, nil
}

// follower writes events to one client.
type follower struct {
	server  *Server
	crawl   string
	w       http.ResponseWriter
	control *http.ResponseController
}

// run sends the events after a cursor until ctx or the connection ends.
func (f *follower) run(ctx context.Context, box events.Outbox, after events.Cursor) {
	sent := time.Now()
	for ctx.Err() == nil {
		if _, err := f.server.fleet.get(f.crawl); err != nil {
			return // it was deleted
		}
		all, next, err := box.Read(ctx, after, eventsRead)
		switch {
		case err != nil && !errors.Is(err, frontier.ErrUnavailable):
			return // the client comes back, and is told why
		case err == nil:
			after = next
		}
		if len(all) > 0 || time.Since(sent) > heartbeat {
			if f.send(all) != nil {
				return
			}
			sent = time.Now()
		}
		if len(all) == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(pollEvery):
			}
		}
	}
}

// send writes events, or a comment if there are none.
func (f *follower) send(all []events.Event) error {
	_ = f.control.SetWriteDeadline(time.Now().Add(streamWrite)) // there is none without a connection
	var text strings.Builder
	for i := range all {
		data, err := all[i].MarshalJSON()
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "id: %s\nevent: %s\ndata: %s\n\n", all[i].Cursor, all[i].Type, data)
	}
	if len(all) == 0 {
		text.WriteString(":\n\n")
	}
	if _, err := f.w.Write([]byte(text.String())); err != nil {
		return err
	}
	return f.control.Flush()
}
