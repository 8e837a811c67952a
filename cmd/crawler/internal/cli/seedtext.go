package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bloomfrontier/crawler/internal/seed"
)

// checkArguments returns an error for arguments that are names of files.
func checkArguments(args []string) error {
	var errs []error
	for _, arg := range args {
		if seed.HasScheme(arg) {
			continue
		}
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
			errs = append(errs, fmt.Errorf("argument %q is a file here, want --seeds %s to read seeds from it (or https://%s for the host)",
				arg, shellQuote(arg), strings.TrimLeft(arg, "/")))
		}
	}
	return errors.Join(errs...)
}

// credentialsShown is the number of seeds with credentials that are reported one by one.
const credentialsShown = 10

// dropCredentials removes credentials from seeds, and warns about them.
type dropCredentials struct {
	stderr io.Writer
	seeds  uint64 // seeds with credentials
}

func (d *dropCredentials) from(line seedLine) seedLine {
	bare, had := seed.WithoutCredentials(line.text)
	if !had {
		return line
	}
	if d.seeds++; d.seeds <= credentialsShown {
		fmt.Fprintf(d.stderr, "warning: %s: the user name and password in %s are not used; "+
			"to send them crawl with -H 'Authorization: Basic BASE64', the base64 of USER:PASSWORD\n", line.source, seed.Shown(line.text))
	}
	line.text = bare
	return line
}

// done reports how many more seeds had credentials.
func (d *dropCredentials) done() {
	if d.seeds > credentialsShown {
		fmt.Fprintf(d.stderr, "warning: %d more seeds have a user name and password that are not used\n", d.seeds-credentialsShown)
	}
}
