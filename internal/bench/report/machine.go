package report

import (
	"fmt"
	"os"
	"runtime"
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
