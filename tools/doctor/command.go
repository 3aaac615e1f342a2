package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/hermes-sidecar/hermes-sidecar/internal/command"
	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
)

// The exit statuses of hermes-doctor.
const (
	exitHealthy     = 0 // nothing has to be changed
	exitProblems    = 1 // a finding is a fail
	exitNotExamined = 2 // a flag, the configuration or a file is wrong
)

// The environment variables that hermes-doctor reads: the key as Hermes calls it, and
// the address as the image and Caddyfile.example do.
const (
	keyVariable      = "API_SERVER_KEY"
	upstreamVariable = "HERMES_UPSTREAM"
)

// defaultAddress is where Hermes listens by default.
const defaultAddress = "127.0.0.1:8642"

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "hermes-doctor",
		Usage: "[--to <addr>] [--config <path> [--adapter <name>]] [--through <url>] [--key-file <path>] [--ask] [--recording <path>] " +
			"[--timeout <duration>] [--ask-timeout <duration>] [--insecure] [--json]",
		Short: "Examines a Hermes agent, and says what the sidecar repairs there",
		Long: `
Asks a Hermes agent who it is, and says whether it can be reached, which release
it is, what the sidecar repairs there, which options may fit, and who else can
connect. Each line has its reason.

  $ caddy hermes-doctor
  $ caddy hermes-doctor --to 127.0.0.1:8642 --ask
  $ caddy hermes-doctor --config Caddyfile --json

WHICH AGENT. The address is that of --to, or else those in the configuration,
of hermes_proxy, or of reverse_proxy after hermes. The configuration is that of
--config, or the Caddyfile in the current directory if it has such a site.
Without either it is HERMES_UPSTREAM, as in the image, or ` + defaultAddress + `.

WHAT IT SENDS. GET requests for /health and /v1/models. --ask sends one chat
request, too, which runs the agent: "Reply with the single word: pong". No
request is sent again. It opens a connection to the same port on the other
addresses of this machine, and sends nothing there. --through is the URL of the sidecar, which is then asked the
same; a configuration names it by itself.

THE KEY. Hermes' API_SERVER_KEY is read from the environment variable of that
name, or from --key-file. --key is for trying only, because other users can read
the arguments of a program. The key is sent only to a server that has shown that
it is Hermes, and is never printed.

--recording reads a recorded stream instead of asking, such as the record option
or curl -siN writes it.

Exits with 0 if nothing has to be changed, with 1 if a line says fail, and with 2
if there was nothing to examine: a flag, a file or the configuration is wrong.
The checks, and the form of --json:
https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/doctor.md
`,
		CobraFunc: func(cmd *cobra.Command) {
			var c doctorCommand
			c.flags(cmd)
			cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return command.Exit(cmd, exitNotExamined, err) })
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				status, err := c.run(cmd.Context(), args, os.Getenv, cmd.OutOrStdout())
				return command.Exit(cmd, status, err)
			}
		},
	})
}

// doctorCommand is a run of caddy hermes-doctor.
type doctorCommand struct {
	to, config, adapter string
	through             string
	key, keyFile        string
	recording           string
	ask, json, insecure bool
	timeout, askTimeout time.Duration
}

func (c *doctorCommand) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&c.to, "to", "t", "", "Address of the agent (default: as the configuration says, or "+defaultAddress+")")
	f.StringVarP(&c.config, "config", "c", "", "Configuration that names the agent")
	f.StringVarP(&c.adapter, "adapter", "a", "", "Name of the adapter of the configuration")
	f.StringVar(&c.through, "through", "", "URL of the sidecar in front of the agent, to be examined as well")
	f.StringVar(&c.keyFile, "key-file", "", "File that has Hermes' API_SERVER_KEY")
	f.StringVar(&c.key, "key", "", "Hermes' API_SERVER_KEY itself (others can see it: use the environment or --key-file)")
	f.StringVar(&c.recording, "recording", "", "Recorded stream to examine instead of an agent, - for standard input")
	f.BoolVar(&c.ask, "ask", false, "Send one short chat request, which runs the agent")
	f.BoolVar(&c.json, "json", false, "Write JSON")
	f.BoolVar(&c.insecure, "insecure", false, "Do not verify certificates")
	f.DurationVar(&c.timeout, "timeout", 5*time.Second, "How long each answer may take")
	f.DurationVar(&c.askTimeout, "ask-timeout", 2*time.Minute, "How long the answer to --ask may take")
}

// run examines what the flags and the environment name, writes the report, and returns
// the exit status.
func (c *doctorCommand) run(ctx context.Context, args []string, env func(string) string, out io.Writer) (int, error) {
	report, err := c.examine(ctx, args, env)
	if err != nil {
		return exitNotExamined, err
	}
	write := report.WriteText
	if c.json {
		write = report.WriteJSON
	}
	switch err := write(out); {
	case err != nil:
		return exitNotExamined, err
	case report.Problems():
		return exitProblems, nil
	}
	return exitHealthy, nil
}

// examine returns the report.
func (c *doctorCommand) examine(ctx context.Context, args []string, env func(string) string) (r Report, err error) {
	switch {
	case len(args) > 0:
		return r, errors.New("hermes-doctor takes flags only: --to is the agent's address")
	case c.timeout <= 0 || c.askTimeout <= 0:
		return r, errors.New("--timeout and --ask-timeout: use durations above 0")
	case c.recording != "" && (c.to != "" || c.ask || c.through != ""):
		return r, errors.New("--recording sends nothing: leave out --to, --through and --ask")
	}
	o := Options{Ask: c.ask, Insecure: c.insecure, Timeout: c.timeout, AskTimeout: c.askTimeout}
	if o.Key, err = c.apiKey(env); err != nil {
		return r, err
	}
	if c.recording != "" {
		a, err := c.recorded(o)
		return NewReport(a), err
	}
	subjects, err := c.subjects(env)
	if err != nil {
		return r, err
	}
	agents := make([]Agent, len(subjects))
	for i, p := range subjects {
		o.Set, o.Through = p.set, p.through
		agents[i] = Examine(cmp.Or(ctx, context.Background()), p.target, p.namedBy, o)
	}
	return NewReport(agents...), nil
}

// recorded examines the recording.
func (c *doctorCommand) recorded(o Options) (Agent, error) {
	in, name := io.Reader(os.Stdin), "standard input"
	var meta recording.Meta
	if c.recording != "-" {
		file, err := os.Open(c.recording)
		if err != nil {
			return Agent{}, fmt.Errorf("opening the recording: %w", err)
		}
		defer file.Close()
		in, name = file, c.recording
		if meta, err = recording.ReadMeta(c.recording); err != nil {
			return Agent{}, err
		}
	}
	return Recording(in, name, meta, o)
}

// maxKey is how long a key may be, in bytes.
const maxKey = 4 << 10

// apiKey returns the key, "" for none. Errors do not repeat it.
func (c *doctorCommand) apiKey(env func(string) string) (string, error) {
	key, from := env(keyVariable), keyVariable
	switch {
	case c.key != "" && c.keyFile != "":
		return "", errors.New("--key and --key-file: give one of them")
	case c.key != "":
		key, from = c.key, "--key"
	case c.keyFile != "":
		file, err := os.Open(c.keyFile)
		if err != nil {
			return "", fmt.Errorf("reading the key: %w", err)
		}
		defer file.Close()
		b, err := io.ReadAll(io.LimitReader(file, maxKey+1))
		if err != nil {
			return "", fmt.Errorf("reading the key: %w", err)
		}
		key, from = string(b), "--key-file"
	}
	key, ok := headerValue(key)
	if !ok || len(key) > maxKey {
		return "", fmt.Errorf("%s: a key is one line of printable ASCII, of at most %d bytes", from, maxKey)
	}
	if key == "" && from != keyVariable {
		return "", fmt.Errorf("%s: there is no key in it", from)
	}
	return key, nil
}
