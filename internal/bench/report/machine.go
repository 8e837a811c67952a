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

// Machine describes this machine in a few words: cores, processor, memory and system. Only
// Linux provides all of them.
func Machine() string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if processor := field("/proc/cpuinfo", "model name"); processor != "" {
		parts = append(parts, processor)
	}
	if kilobytes, isKB := strings.CutSuffix(field("/proc/meminfo", "MemTotal"), " kB"); isKB {
		n, _ := strconv.ParseUint(kilobytes, 10, 64) // 0 if it is not a number
		parts = append(parts, humanize.IBytesN(n<<10, 3))
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // only Linux has it
	system := strings.Fields(runtime.GOOS + " " + string(kernel) + " " + runtime.GOARCH)
	return strings.Join(append(parts, strings.Join(system, " ")), ", ")
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
