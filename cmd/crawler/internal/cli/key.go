package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/fetcher/botauth"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// newKey returns the command for the keys with which requests are signed.
func newKey(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make, publish and replace the key that signs requests",
		Long: `Make, publish and replace the key that signs requests (crawler crawl --sign), so
that the owners of sites can recognise the crawler: Web Bot Auth. The file is a
secret, and readable by its owner only.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newKeyNew(s), newKeyDirectory(s), newKeyRotate(s))
	return cmd
}

func newKeyNew(s streams) *cobra.Command {
	return &cobra.Command{
		Use:     "new FILE",
		Short:   "Make a key",
		Example: "  crawler key new bot.key",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			file := args[0]
			if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
				return usage(fmt.Errorf("%s exists already: crawler key rotate replaces its key", file))
			}
			keys, err := botauth.New(time.Now())
			if err == nil {
				err = keys.Write(file)
			}
			if err != nil {
				return &exitError{exitFailed, err}
			}
			fmt.Fprintf(s.out, `%s has the key %s

1. Publish it under your own https origin:
   crawler key directory %[1]s --signature-agent https://ORIGIN
2. Crawl with it:
   crawler crawl --sign %[1]s --signature-agent https://ORIGIN ...
3. Tell the owners of sites who you are: crawler contact prints a page for them.
`, file, keys[0].ID())
			return nil
		},
	}
}

func newKeyDirectory(s streams) *cobra.Command {
	var agent, out string
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "directory FILE --signature-agent URL [--out DIR]",
		Short: "Print the directory of public keys, to be published",
		Long: `Print the answer that the origin must give to requests for
` + botauth.DirectoryPath + `:
the header, which has a signature for each key, and the public keys. The header
and the body must be published exactly as they are, and again before --lifetime
is over.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&agent, "signature-agent", "", "the https `URL` of the origin, or of the directory itself")
	cmd.Flags().DurationVar(&lifetime, "lifetime", 30*24*time.Hour, "how long the signatures are valid")
	cmd.Flags().StringVar(&out, "out", "", "write directory.json and directory.headers into `DIR` instead")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if agent == "" || lifetime < time.Minute {
			return usage(errors.New("want --signature-agent, and a --lifetime of 1m or more"))
		}
		keys, err := botauth.Read(args[0])
		if err != nil {
			return usage(err)
		}
		directory, err := keys.Directory(agent, time.Now(), lifetime)
		if _, is := errors.AsType[*botauth.AgentError](err); is {
			return usage(err)
		} else if err != nil {
			return &exitError{exitFailed, err}
		}
		var header strings.Builder
		for _, name := range slices.Sorted(maps.Keys(directory.Header)) {
			fmt.Fprintf(&header, "%s: %s\n", name, directory.Header.Get(name))
		}
		if out == "" {
			fmt.Fprintf(s.out, "%s\n%s", header.String(), directory.Body)
			return nil
		}
		if err := os.MkdirAll(out, 0o755); err != nil {
			return &exitError{exitFailed, err}
		}
		for name, text := range map[string][]byte{"directory.headers": []byte(header.String()), "directory.json": directory.Body} {
			err := durable.Replace(vfs.Default, filepath.Join(out, name), func(w io.Writer) error {
				_, err := w.Write(text)
				return err
			})
			if err != nil {
				return &exitError{exitFailed, err}
			}
		}
		fmt.Fprintf(s.out, "directory.json and directory.headers are in %s\n", out)
		return nil
	}
	return cmd
}

func newKeyRotate(s streams) *cobra.Command {
	var publish, keep time.Duration
	cmd := &cobra.Command{
		Use:   "rotate FILE",
		Short: "Replace the key by a new one, which signs later",
		Long: `Add a new key to FILE. It signs after --publish: until then, publish the new
directory. The earlier key stays in the directory for --keep longer, because
sites keep copies. Crawls that run read the file again by themselves.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().DurationVar(&publish, "publish", 24*time.Hour, "when the new key begins to sign")
	cmd.Flags().DurationVar(&keep, "keep", 7*24*time.Hour, "how long the earlier key is published after that")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if publish < 0 || keep < 0 {
			return usage(errors.New("want --publish and --keep of 0 or more"))
		}
		keys, err := botauth.Read(args[0])
		if err != nil {
			return usage(err)
		}
		now := time.Now()
		if keys, err = keys.Rotate(now, publish, keep); err == nil {
			err = keys.Write(args[0])
		}
		if err != nil {
			return &exitError{exitFailed, err}
		}
		for i, key := range keys {
			switch {
			case i == 0:
				fmt.Fprintf(s.out, "%s signs from %s\n", key.ID(), key.From.UTC().Format(time.RFC3339))
			default:
				fmt.Fprintf(s.out, "%s is published until %s\n", key.ID(), key.Until.UTC().Format(time.RFC3339))
			}
		}
		fmt.Fprintf(s.out, "Now publish what 'crawler key directory %s' prints.\n", args[0])
		return nil
	}
	return cmd
}
