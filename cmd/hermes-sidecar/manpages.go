package main

import (
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/hermes-sidecar/hermes-sidecar/internal/build"
)

// A hidden command writes the man pages of the packages. Caddy's own command manpage passes the
// help unchanged to a Markdown parser, which drops <file> as HTML and joins the lines of examples.
func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "hermes-manpages",
		Usage: "<directory>",
		Short: "Writes the manual pages of the packages",
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Hidden = true
			cmd.Args = cobra.ExactArgs(1)
			cmd.RunE = func(cmd *cobra.Command, args []string) error { return manpages(cmd.Root(), args[0]) }
		},
	})
}

// manpages writes a page to dir for each command below root that works here. The date of the pages
// is SOURCE_DATE_EPOCH, if that is set.
func manpages(root *cobra.Command, dir string) error {
	root.DisableAutoGenTag = true
	root.Short = "repairs the streams of a Hermes agent"
	root.Example = "  $ caddy hermes-proxy --from :8643 --to 127.0.0.1:8642\n  $ caddy run --config /etc/hermes-sidecar/Caddyfile"
	asMarkdown(root)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return doc.GenManTree(root, &doc.GenManHeader{
		Title: "HERMES-SIDECAR", Section: "8", Source: "hermes-sidecar " + build.This().Version, Manual: "Hermes sidecar",
	}, dir)
}

// asMarkdown turns the texts of cmd and of the commands below it into Markdown, and hides the
// foreign ones.
func asMarkdown(cmd *cobra.Command) {
	cmd.Hidden = cmd.Hidden || foreign[cmd.Name()]
	cmd.Use = escapeTags(cmd.Use)
	cmd.Example = ownName(cmd.Example)
	lines := strings.Split(ownName(cmd.Long), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t") {
			lines[i] = "    " + line // a block of code, in which nothing is a tag
		} else {
			lines[i] = escapeTags(line)
		}
	}
	cmd.Long = strings.Join(lines, "\n")
	for _, c := range cmd.Commands() {
		asMarkdown(c)
	}
}

func escapeTags(s string) string { return strings.ReplaceAll(s, "<", `\<`) }

func ownName(s string) string {
	return strings.ReplaceAll(s, "$ caddy ", "$ "+caddy.CustomBinaryName+" ")
}
