package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// refusalLog is the file of --refused. It has a line for each URL that a rule refused. A
// nil refusalLog does nothing. A refusalLog is safe for concurrent use.
type refusalLog struct {
	mu   sync.Mutex
	file *os.File
	w    *bufio.Writer
	err  error // the first error
}

// refusal is a line of --refused; docs/reference/report.md describes it.
type refusal struct {
	URL      string          `json:"url"`
	Reason   frontier.Reason `json:"reason"`
	Rule     string          `json:"rule,omitempty"`
	Referrer string          `json:"referrer,omitempty"` // empty means that the URL was a seed
}

// openRefusals opens a file for appending. It returns nil if name is empty. It refuses files
// in dir, the directory of the crawl that the command runs.
func openRefusals(name, dir string) (*refusalLog, error) {
	if name == "" {
		return nil, nil
	}
	f, err := openAppend(name, dir)
	if err != nil {
		return nil, fmt.Errorf("--refused: %w", err)
	}
	return &refusalLog{file: f, w: bufio.NewWriterSize(f, 64<<10)}, nil
}

// onRefused returns the function for crawl.Config.OnRefused, or nil if there is no file.
func (l *refusalLog) onRefused() func(fetcher.Refused) {
	if l == nil {
		return nil
	}
	return func(r fetcher.Refused) { l.write(refusal(r)) }
}

func (l *refusalLog) write(r refusal) {
	line, err := json.Marshal(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.w.Write(append(line, '\n'))
	}
	l.note(err)
}

// note stores the first error. The caller must hold mu.
func (l *refusalLog) note(err error) {
	if l.err == nil && err != nil {
		l.err = fmt.Errorf("--refused: %w", err)
	}
}

// flush writes buffered lines, so that readers of the file see them.
func (l *refusalLog) flush() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(l.w.Flush())
}

// close closes the file and returns the first error.
func (l *refusalLog) close() error {
	if l == nil {
		return nil
	}
	l.flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.err, l.file.Close())
}
