package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/frontier"
)

// place is where a crawl is: its home, and the directory that it has on this
// machine.
type place struct {
	home
	// dir has records, the report, and the socket of the process that crawls
	// into it; empty: there is none here.
	dir string
}

func inDirectory(dir string) place { return place{directory{path: dir}, dir} }

// file returns the path of a file in the place's directory.
func (at place) file(name string) string { return filepath.Join(at.dir, name) }

// missing says that there is no crawl.
func (at place) missing() string {
	if at.dir == at.title() {
		return "no crawl in " + at.dir
	}
	return "no crawl " + at.title()
}

// withRemedy adds to an error what makes a lost filter anew.
func (at place) withRemedy(err error) error {
	if errors.Is(err, frontier.ErrFilterLost) {
		return fmt.Errorf("%w\n'%s' makes it anew", err, at.command("rebuild"))
	}
	return err
}

// command returns the line of a command about this crawl.
func (at place) command(name string) string {
	line := program() + " " + name
	for _, argument := range at.arguments(name == "crawl") {
		line += " " + argument
	}
	return line
}

// listens reports whether a process crawls into the place's directory.
func (at place) listens(ctx context.Context) bool {
	if at.dir == "" {
		return false
	}
	conn, err := dialControl(ctx, at.dir)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func recordsIn(dir string) string { return filepath.Join(dir, "pages.jsonl") }

func addDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "the crawl's `DIR` (default CRAWLER_DIR, or the crawl in the current directory)")
	complete(cmd)
}

// existing returns the place of an existing crawl in a directory.
func existing(ctx context.Context, dir string) (place, error) {
	if dir == "" {
		dir = os.Getenv(envName("dir"))
	}
	if dir == "" {
		var err error
		if dir, err = findDir(); errors.Is(err, errNoCrawl) {
			return place{}, usage(errors.New("no crawl in this directory: name one with --dir"))
		} else if err != nil {
			return place{}, usage(err)
		}
	}
	at := inDirectory(dir)
	card, err := readWorkerCard(dir)
	if err != nil {
		return place{}, &exitError{exitFailed, err}
	}
	if card != nil {
		if !at.listens(ctx) {
			return place{}, usage(fmt.Errorf("%s is of a worker of %s, a crawl in Redis, and that is not running: name the crawl with --redis and --name", dir, card.Crawl))
		}
		return at, nil
	}
	stored, err := at.fixed(ctx)
	if err != nil {
		return place{}, &exitError{exitFailed, err}
	}
	if stored == nil {
		return place{}, usage(errors.New(at.missing()))
	}
	return at, nil
}

// openStored opens an existing crawl with its own settings. Which addresses its
// runs may request is theirs to say: here nothing is requested.
func openStored(ctx context.Context, at place, s streams, why purpose) (*session, error) {
	o := new(options)
	cmd := &cobra.Command{}
	addSections(cmd, o.newFlags())
	o.private = true
	p := &plan{options: o, place: at}
	var err error
	if p.layers, err = readLayers(cmd.Flags(), nil); err != nil {
		return nil, usage(err)
	}
	if p.stored, err = at.fixed(ctx); err != nil {
		return nil, &exitError{exitFailed, err}
	}
	if p.stored == nil {
		return nil, usage(errors.New(at.missing()))
	}
	if err := errors.Join(p.adopt(p.stored, p.keeper()), o.adoptForm(p.stored, p.title())); err != nil {
		return nil, &exitError{exitFailed, err}
	}
	if p.checked, err = p.check(); err != nil {
		return nil, &exitError{exitFailed, err}
	}
	return openSession(ctx, p, s, why)
}

// visitCrawl asks the process that crawls to change something, or opens the crawl
// and changes it if there is none.
func visitCrawl(ctx context.Context, at place, s streams, remote func() error, local func(*session) error) error {
	return visitStored(ctx, at, s, toSteer, remote, local)
}

// lookAtCrawl is visitCrawl for commands that change nothing.
func lookAtCrawl(ctx context.Context, at place, s streams, remote func() error, local func(*session) error) error {
	return visitStored(ctx, at, s, toLook, remote, local)
}

func visitStored(ctx context.Context, at place, s streams, why purpose, remote func() error, local func(*session) error) error {
	if at.listens(ctx) {
		if err := remote(); err != nil {
			return &exitError{exitFailed, err}
		}
		return nil
	}
	ses, err := openStored(ctx, at, s, why)
	if err != nil {
		return err
	}
	if err := errors.Join(local(ses), ses.close()); err != nil {
		return &exitError{exitFailed, err}
	}
	return nil
}
