package servers

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// AOFDir returns the folder of the server's append-only files.
func (r *RedisServer) AOFDir() string { return filepath.Join(r.data, "appendonlydir") }

// FlushAOF returns when the server has written all acknowledged commands to its
// append-only file. The file need not be synced yet. Redis buffers new commands for up
// to 2 s while it syncs earlier ones. Kill loses the buffer.
func (r *RedisServer) FlushAOF(ctx context.Context) error {
	for {
		held, err := r.Info("persistence", "aof_buffer_length")
		if err != nil || held == "0" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s holds back %s bytes of its log: %w", r.Addr(), held, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// AOFSize returns the total size of all append-only files in bytes. If the server runs,
// AOFSize calls FlushAOF first.
func (r *RedisServer) AOFSize() (int64, error) {
	if r.Pid() != 0 {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		if err := r.FlushAOF(ctx); err != nil {
			return 0, err
		}
	}
	files, err := os.ReadDir(r.AOFDir())
	if err != nil {
		return 0, err
	}
	var total int64
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return total, nil
}

// CutAOF truncates the newest append-only file to the length that the function keep
// returns for the file's size. This simulates a power failure: a log that is synced
// every second can lose its end. The server must be down.
func (r *RedisServer) CutAOF(keep func(size int64) int64) error {
	if pid := r.Pid(); pid != 0 {
		return fmt.Errorf("cut the append-only file of a server that runs as process %d", pid)
	}
	path, err := r.newestAOF()
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	length := keep(info.Size())
	if length < 0 || length > info.Size() {
		return fmt.Errorf("cut %q of %d bytes to %d", path, info.Size(), length)
	}
	return os.Truncate(path, length)
}

// newestAOF returns the path of the file that the server appends to: the last file of
// type i (incremental) in the manifest. The lines of the manifest have the form "file
// NAME seq NUMBER type LETTER".
func (r *RedisServer) newestAOF() (string, error) {
	manifests, err := fs.Glob(os.DirFS(r.AOFDir()), "*.manifest")
	if err != nil || len(manifests) != 1 {
		return "", fmt.Errorf("%q has %d manifests, want 1 (%v)", r.AOFDir(), len(manifests), err)
	}
	manifest, err := os.ReadFile(filepath.Join(r.AOFDir(), manifests[0]))
	if err != nil {
		return "", err
	}
	newest := ""
	for line := range strings.Lines(string(manifest)) {
		if fields := strings.Fields(line); len(fields) >= 6 && fields[0] == "file" && fields[5] == "i" {
			newest = fields[1]
		}
	}
	if newest == "" {
		return "", fmt.Errorf("%q in %q names no incremental file", manifests[0], r.AOFDir())
	}
	return filepath.Join(r.AOFDir(), newest), nil
}
