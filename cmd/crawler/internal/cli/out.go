package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/internal/bench"
)

// stdout is the writer for the data that commands print. It writes to standard output,
// or to the file of --out.
type stdout struct {
	w     io.Writer
	fault atomic.Pointer[error] // the first error of a Write; nil means none
}

func (o *stdout) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.fault.CompareAndSwap(nil, &err)
	}
	return n, err
}

// writeFault returns the first error of a write to the standard output of a command.
func writeFault(root *cobra.Command) error {
	if fault := root.OutOrStdout().(*stdout).fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// Unwrap returns the writer to which o writes.
func (o *stdout) Unwrap() io.Writer { return o.w }

// addTo adds the flag --out to a command.
func (o *stdout) addTo(cmd *cobra.Command) {
	var name string
	cmd.Flags().StringVar(&name, "out", "-", "write to `FILE`, which appears only when complete; - is stdout")
	_ = cmd.MarkFlagFilename("out")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if name == "-" || name == "" {
			return run(cmd, args)
		}
		if watch := cmd.Flags().Lookup("watch"); watch != nil && watch.Value.String() == "true" {
			return usage(errors.New("--out writes a file when the command ends, and --watch goes on: leave one of them out"))
		}
		return o.toFile(name, func() error { return run(cmd, args) })
	}
}

// printed wraps the error of a command that has printed all its output.
type printed struct{ error }

func (p printed) Unwrap() error { return p.error }

// toFile calls run and writes its output to a file. If run fails, the file is not changed,
// unless the error has the type printed or bench.Reported.
func (o *stdout) toFile(name string, run func() error) (err error) {
	name = linked(name) // replace the target of a link, not the link
	file, err := createOut(name)
	if err != nil {
		return usage(fmt.Errorf("--out: %w", err))
	}
	w, before := bufio.NewWriterSize(file, 64<<10), o.w
	o.w = w
	defer func() { o.w = before }()
	err = run()
	_, reported := errors.AsType[bench.Reported](err)
	if _, said := errors.AsType[printed](err); err != nil && !said && !reported {
		return errors.Join(err, file.discard())
	}
	if faults := errors.Join(w.Flush(), file.commit()); faults != nil {
		return errors.Join(err, &exitError{exitFailed, fmt.Errorf("--out: %w", faults)})
	}
	return err
}

// linked returns the file to which a link leads, or name if it is not a link.
func linked(name string) string {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		return target
	}
	return name
}

// checkOutside returns an error if a file is in the directory of a crawl or of a worker.
// Output must not replace the records there, nor any other file that the crawl writes. The
// directory dir counts too, even if it has no crawl yet; an empty dir means none.
func checkOutside(name, dir string) error {
	name = linked(name)
	at := filepath.Dir(name)
	inside := dir != "" && sameDir(at, dir)
	for _, mark := range []string{crawlFile, workerFile} {
		_, err := os.Stat(filepath.Join(at, mark))
		inside = inside || err == nil
	}
	if inside {
		return fmt.Errorf("%s is in the directory of a crawl, where only the crawl writes: name a file in another directory", name)
	}
	return nil
}

// sameDir reports whether two paths lead to the same directory. If one of them does not
// exist, sameDir compares the paths.
func sameDir(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA != nil || errB != nil {
		return filepath.Clean(a) == filepath.Clean(b)
	}
	return os.SameFile(infoA, infoB)
}

// openAppend opens a file of lines for appending. If the last line has no line feed,
// because a crash cut it off, openAppend adds one. It refuses files in dir, the directory of
// the crawl that the command runs.
func openAppend(name, dir string) (f *os.File, err error) {
	const flags = os.O_CREATE | os.O_APPEND
	if err := checkOutside(name, dir); err != nil {
		return nil, err
	}
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() { // the end of a pipe or a device cannot be read
		return os.OpenFile(name, flags|os.O_WRONLY, 0o644)
	}
	if f, err = os.OpenFile(name, flags|os.O_RDWR, 0o644); err != nil || info == nil || info.Size() == 0 {
		return f, err
	}
	last := make([]byte, 1)
	if _, err = f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
		_, err = f.Write([]byte{'\n'})
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// outFile is a temporary file that will replace another one.
type outFile struct {
	*os.File
	name string // the file that is replaced; empty for a device or a pipe, which is written directly
}

func createOut(name string) (*outFile, error) {
	if err := checkOutside(name, ""); err != nil {
		return nil, err
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s is a directory, want a file", name)
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		return &outFile{f, ""}, err
	}
	f, err := os.OpenFile(fmt.Sprintf("%s.%08x.tmp", name, rand.Uint32()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	out := &outFile{f, name}
	if info != nil {
		if err := f.Chmod(info.Mode().Perm()); err != nil {
			return nil, errors.Join(err, out.discard())
		}
	}
	return out, nil
}

// commit syncs the file and renames it to its final name.
func (f *outFile) commit() error {
	if f.name == "" {
		return f.Close()
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), f.name)
}

// discard removes the file.
func (f *outFile) discard() error {
	if f.name == "" {
		return f.Close()
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
