package report

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Machine describes the machine of a run.
type Machine struct {
	Go        string `json:"go"`
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	Kernel    string `json:"kernel"`    // empty means not known
	Processor string `json:"processor"` // empty means not known
	Cores     int    `json:"cores"`
	Memory    uint64 `json:"memory"` // 0 means not known
}

// ThisMachine describes this machine. Only Linux provides all fields.
func ThisMachine() Machine {
	m := Machine{
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(),
		Processor: field("/proc/cpuinfo", "model name"),
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(kernel))
	}
	if kilobytes, isKB := strings.CutSuffix(field("/proc/meminfo", "MemTotal"), " kB"); isKB {
		n, _ := strconv.ParseUint(kilobytes, 10, 64) // 0 if it is not a number
		m.Memory = n << 10
	}
	return m
}

func (m Machine) String() string {
	parts := []string{fmt.Sprintf("%d cores", m.Cores)}
	if m.Processor != "" {
		parts = append(parts, m.Processor)
	}
	if m.Memory > 0 {
		parts = append(parts, humanize.IBytesN(m.Memory, 3))
	}
	return strings.Join(append(parts, strings.TrimSpace(m.OS+" "+m.Kernel)+" "+m.Arch), ", ")
}

// field returns the value of the first line with the given name, or "" if there is
// none. The lines of the file have the form "name : value".
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Commit returns the commit that this program was built from, with "-dirty" if the tree had
// uncommitted changes. It is empty if the program does not contain its commit.
func Commit() (commit string) {
	build, _ := debug.ReadBuildInfo()
	if build == nil {
		return ""
	}
	for _, s := range build.Settings { // vcs.revision comes before vcs.modified
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			commit += "-dirty"
		}
	}
	return commit
}
