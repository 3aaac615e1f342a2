// Package repair registers the command hermes-repair, which repairs a recorded answer of
// Hermes offline, with the engine that repairs live ones, and explains what it does.
package repair

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"os"
	"slices"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/hermes-sidecar/hermes-sidecar/internal/command"
	"github.com/hermes-sidecar/hermes-sidecar/internal/details"
	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// The exit statuses of hermes-repair.
const (
	exitRepaired  = 0 // the answer ended well
	exitNotRead   = 1 // there was nothing to repair, or a flag was wrong
	exitBadAnswer = 4 // the answer ended in an error
)

// repairOptions are the options that matter where there is no clock.
var repairOptions = []string{
	"max_frame", "imitations", "reasoning", "tool", "progress", "status_line", "cards", "error_finish", "zero_usage",
	"empty_answer", "memory",
}

// The values of the option memory that are not its default.
const (
	memoryOff     = "off"
	memoryResults = "results"
)

// help is the text of --help.
//
//go:embed help.txt
var help string

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "hermes-repair",
		Usage: "[<file>] [--explain] [--width <columns>] [--path <path>] [--cause <cause>] [--session <file>] [--<option of the hermes directive> <value>]",
		Short: "Repairs a recorded stream of a Hermes agent, and explains how",
		Long:  "\n" + help,
		CobraFunc: func(cmd *cobra.Command) {
			var c repairCommand
			c.flags(cmd)
			cmd.Args = cobra.MaximumNArgs(1)
			cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return command.Exit(cmd, exitNotRead, err) })
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				status, err := c.run(args, cmd.InOrStdin(), cmd.OutOrStdout())
				return command.Exit(cmd, status, err)
			}
		},
	})
}

// repairCommand is a run of caddy hermes-repair.
type repairCommand struct {
	explain     bool // write what became of each frame, and why, instead of the repaired answer
	width       int  // columns of a frame's line that an explanation shows, 0 for all
	path, cause string
	session     string // the file of what Hermes has stored, "" for none
	flagged     command.OptionFlags

	options rewrite.Options
	details rewrite.Details // nil without a session
	memory  string          // the option, "" for its default
	meta    recording.Meta  // without a Path, the frames show of what kind the stream is
	out     io.Writer
}

func (c *repairCommand) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&c.explain, "explain", "e", false, "Show what happened to each frame, and why")
	f.IntVar(&c.width, "width", 160, "Columns of a frame's line that --explain shows, 0 for all")
	f.StringVar(&c.path, "path", "", "Path of the request")
	f.StringVar(&c.cause, "cause", "", "How upstream ended: eof, aborted, timeout or shutdown (default eof)")
	f.StringVar(&c.session, "session", "", "File with what Hermes has stored: its answer to GET /api/sessions/{id}/messages")
	c.flagged = command.NewOptionFlags(cmd, slices.DeleteFunc(slices.Clone(options.All()), func(o *options.Option) bool {
		return !slices.Contains(repairOptions, o.Name)
	}))
}

// run repairs the file in args, or in if there is none, and returns the exit status.
func (c *repairCommand) run(args []string, in io.Reader, out io.Writer) (int, error) {
	given, err := c.flagged.Values()
	if err != nil {
		return exitNotRead, err
	}
	o, err := given.Compile()
	if err != nil {
		return exitNotRead, err
	}
	c.options, c.out = o.Rewrite, out
	c.memory, _ = given["memory"].(string)
	if c.session != "" {
		if c.details, err = readSession(c.session); err != nil {
			return exitNotRead, err
		}
	}
	if len(args) > 0 && args[0] != "-" {
		file, err := os.Open(args[0])
		if err != nil {
			return exitNotRead, fmt.Errorf("opening the recording: %w", err)
		}
		defer file.Close()
		in = file
		if c.meta, err = recording.ReadMeta(args[0]); err != nil {
			return exitNotRead, err
		}
	}
	c.meta.Path, c.meta.Cause = cmp.Or(c.path, c.meta.Path), cmp.Or(c.cause, c.meta.Cause)
	if given["progress"] != nil {
		c.meta.Progress = ""
	}
	code, err := c.repair(in)
	switch {
	case err != nil:
		return exitNotRead, err
	case code != "":
		return exitBadAnswer, nil
	}
	return exitRepaired, nil
}

// readSession reads what Hermes has stored of the tools of a session from the file.
func readSession(file string) (rewrite.Details, error) {
	answer, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("opening the session: %w", err)
	}
	d, err := details.Stored(answer)
	if err != nil {
		return nil, fmt.Errorf("reading the session %s: %w", file, err)
	}
	return d, nil
}
