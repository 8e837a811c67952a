package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
)

func version() string { return crawl.Version() }

func versionLine() string {
	return fmt.Sprintf("crawler %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersion(s streams) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			fmt.Fprint(s.out, versionLine())
		},
	}
}
