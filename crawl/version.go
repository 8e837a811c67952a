package crawl

import "runtime/debug"

// module is the path of this module.
const module = "github.com/bloomfrontier/crawler"

// BuildVersion is set by the linker of a released command; empty means Version reads
// the build information.
var BuildVersion = ""

// Version returns the version of this module in the program, or "dev".
func Version() string {
	if BuildVersion != "" {
		return BuildVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "dev"
}
