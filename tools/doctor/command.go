// Package doctor registers the command hermes-doctor, which examines a Hermes agent from the
// outside: whether it can be reached, which releases of Hermes answer like that, what the
// sidecar repairs there, which options fit, and who else can connect.
//
// It sends a running agent a few GET requests and, only with --ask, one short chat request, and
// repeats none of them; or it reads a recorded answer. The engine (package rewrite) tells what it
// repairs in the answer.
package doctor

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/hermes-sidecar/hermes-sidecar/internal/command"
)

// The exit statuses of hermes-doctor.
const (
	exitHealthy     = 0 // nothing has to be changed
	exitProblems    = 1 // a finding is a fail
	exitNotExamined = 2 // a flag, the configuration or a file is wrong
)

// The environment variables that hermes-doctor reads: the key as Hermes calls it, the address as
// the image and Caddyfile.example do, and the key of a client where the site has logins of its own.
const (
	keyVariable      = "API_SERVER_KEY"
	upstreamVariable = "HERMES_UPSTREAM"

	clientKeyVariable = "HERMES_CLIENT_KEY"
)

// defaultAddress is where Hermes listens by default.
const defaultAddress = "127.0.0.1:8642"

// help is the text of --help.
//
//go:embed help.txt
var help string

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "hermes-doctor",
		Usage: "[--to <addr>] [--config <path> [--adapter <name>]] [--through <url>] [--key-file <path>] [--client-key-file <path>] [--ask] [--recording <path>] " +
			"[--timeout <duration>] [--ask-timeout <duration>] [--insecure] [--json]",
		Short: "Examines a Hermes agent and reports what the sidecar repairs",
		Long:  "\n" + help,
		CobraFunc: func(cmd *cobra.Command) {
			d := newDoctor()
			d.flags(cmd)
			cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return command.Exit(cmd, exitNotExamined, err) })
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				status, err := d.run(cmd.Context(), args, cmd.OutOrStdout())
				return command.Exit(cmd, status, err)
			}
		},
	})
}

// A doctor is a run of the command: its flags, and what tests replace of the system.
type doctor struct {
	to, config, adapter string // "" for what the configuration or the environment names
	through             string // the URL of the sidecar, "" for what the configuration names
	key, keyFile        string // readKeys sets key to the one to use, "" for none
	clientKeyFile       string
	clientKey           string // of the sidecar's site, as readKeys finds it, "" for the agent's
	recording           string
	ask, json, insecure bool
	timeout, askTimeout time.Duration // of each GET request, and of the chat request

	env          func(string) string
	dial         func(ctx context.Context, network, addr string) (net.Conn, error)
	ownAddresses func() ([]netip.Addr, error) // of this machine, without loopback
	now          func() time.Time
}

func newDoctor() *doctor {
	return &doctor{env: os.Getenv, dial: new(net.Dialer).DialContext, ownAddresses: ownAddresses, now: time.Now}
}

func (d *doctor) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&d.to, "to", "t", "", "Address of the agent (default: the one in the configuration, or "+defaultAddress+")")
	f.StringVarP(&d.config, "config", "c", "", "Configuration that names the agent")
	f.StringVarP(&d.adapter, "adapter", "a", "", "Name of the adapter of the configuration")
	f.StringVar(&d.through, "through", "", "URL of the sidecar in front of the agent, to examine as well")
	f.StringVar(&d.keyFile, "key-file", "", "File that contains Hermes' API_SERVER_KEY")
	f.StringVar(&d.clientKeyFile, "client-key-file", "", "File that contains a client's key for the sidecar, if its site has logins")
	f.StringVar(&d.key, "key", "", "Hermes' API_SERVER_KEY itself (others can see it: use the environment or --key-file)")
	f.StringVar(&d.recording, "recording", "", "Recorded stream to examine instead of an agent, - for standard input")
	f.BoolVar(&d.ask, "ask", false, "Send one short chat request, which runs the agent")
	f.BoolVar(&d.json, "json", false, "Write JSON")
	f.BoolVar(&d.insecure, "insecure", false, "Do not verify certificates")
	f.DurationVar(&d.timeout, "timeout", 5*time.Second, "How long each answer may take")
	f.DurationVar(&d.askTimeout, "ask-timeout", 2*time.Minute, "How long the answer to --ask may take")
}

// run examines what the flags and the environment name, writes the report, and returns
// the exit status.
func (d *doctor) run(ctx context.Context, args []string, out io.Writer) (int, error) {
	agents, err := d.agents(cmp.Or(ctx, context.Background()), args)
	if err != nil {
		return exitNotExamined, err
	}
	r := newReport(agents...)
	text := r.text()
	if d.json {
		text = r.json()
	}
	if _, err := io.WriteString(out, text); err != nil {
		return exitNotExamined, fmt.Errorf("writing the report: %w", err)
	}
	if r.Result != resultOK {
		return exitProblems, nil
	}
	return exitHealthy, nil
}

// agents examines the recording, or all agents.
func (d *doctor) agents(ctx context.Context, args []string) ([]Agent, error) {
	switch {
	case len(args) > 0:
		return nil, errors.New("hermes-doctor takes flags only: --to is the agent's address")
	case d.timeout <= 0 || d.askTimeout <= 0:
		return nil, errors.New("--timeout and --ask-timeout: use durations above 0")
	case d.recording != "" && (d.to != "" || d.ask || d.through != ""):
		return nil, errors.New("--recording sends nothing: leave out --to, --through and --ask")
	}
	if err := d.readKeys(); err != nil {
		return nil, err
	}
	if d.recording != "" {
		a, err := d.openRecording()
		return []Agent{a}, err
	}
	subjects, err := d.subjects()
	if err != nil {
		return nil, err
	}
	all := make([]Agent, len(subjects))
	for i, s := range subjects {
		all[i] = d.examine(ctx, s)
	}
	return all, nil
}

// maxKey is the length in bytes of the longest key.
const maxKey = 4 << 10

// readKeys sets the keys to those of the flags or the environment. Errors do not repeat them.
func (d *doctor) readKeys() (err error) {
	if d.key != "" && d.keyFile != "" {
		return errors.New("--key and --key-file: use only one of them")
	}
	if d.clientKey, err = d.readKey("", "--client-key-file", d.clientKeyFile, clientKeyVariable); err != nil {
		return err
	}
	d.key, err = d.readKey(d.key, "--key-file", d.keyFile, keyVariable)
	return err
}

// readKey returns given or, if it is empty, the key in the file that a flag names or, without one,
// in the environment variable. A scheme may be in front of a client's key.
func (d *doctor) readKey(given, flag, file, variable string) (string, error) {
	key, from := d.env(variable), variable
	switch {
	case given != "":
		key, from = given, "--key"
	case file != "":
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("reading the key: %w", err)
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxKey+1))
		if err != nil {
			return "", fmt.Errorf("reading the key: %w", err)
		}
		key, from = string(b), flag
	}
	trimmed := strings.TrimSpace(key)
	bare := trimmed
	if variable == clientKeyVariable {
		_, bare = schemeOf(trimmed)
	}
	switch {
	case len(key) > maxKey || strings.ContainsFunc(bare, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%s: a key is one line of printable ASCII, of at most %d bytes", from, maxKey)
	case trimmed == "" && from != variable:
		return "", fmt.Errorf("%s: the file contains no key", from)
	}
	return trimmed, nil
}

// schemeOf returns the scheme of a client's key, Bearer unless it is in front, and the rest.
func schemeOf(key string) (scheme, rest string) {
	if scheme, rest, ok := strings.Cut(key, " "); ok && (scheme == "Basic" || scheme == "Bearer") {
		return scheme, rest
	}
	return "Bearer", key
}
