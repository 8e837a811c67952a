package proofs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// confined returns a copy of c whose runs are in a memory control group. The kernel
// kills a run that takes more than limit bytes. If this process is not allowed to make
// such a group, confined returns c itself and false.
func confined(t *testing.T, c *crawl, limit int64) (*crawl, bool) {
	t.Helper()
	group, err := makeGroup(limit)
	if err != nil {
		t.Logf("no memory control group: %v", err)
		return c, false
	}
	t.Cleanup(func() {
		if err := os.Remove(group); err != nil {
			t.Errorf("remove the control group: %v", err)
		}
	})
	script := filepath.Join(t.TempDir(), "confined")
	text := "#!/bin/sh\necho $$ >" + group + "/cgroup.procs && exec " + c.bin + ` "$@"` + "\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	inside := *c
	inside.bin = script
	return &inside, true
}

// makeGroup makes a control group, of version 1 or 2, whose processes can take limit
// bytes of memory together. It returns the path of the group.
func makeGroup(limit int64) (path string, err error) {
	parent, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(parent, file)); err != nil {
		own, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return "", err
		}
		_, name, _ := strings.Cut(strings.TrimSpace(string(own)), "0::")
		parent, file = filepath.Join("/sys/fs/cgroup", filepath.Dir(name)), "memory.max"
	}
	path, err = os.MkdirTemp(parent, "crawler-proof-")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(path, file), []byte(strconv.FormatInt(limit, 10)), 0); err != nil {
		_ = os.Remove(path)
		return "", err
	}
	return path, nil
}
