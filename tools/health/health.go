// Package health registers the command hermes-health, which asks a running sidecar whether
// it serves.
package health

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/hermes-sidecar/hermes-sidecar/internal/command"
)

const (
	// healthURL is the health check of the configurations in deploy/.
	healthURL = "http://127.0.0.1:8644/healthz"
	// healthTimeout is below the timeout of any prober that runs the command.
	healthTimeout = 2 * time.Second
)

// help is the text of --help.
//
//go:embed help.txt
var help string

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "hermes-health",
		Usage: "[--url <url>] [--timeout <duration>]",
		Short: "Checks whether a running sidecar serves requests",
		Long:  "\n" + help,
		CobraFunc: func(cmd *cobra.Command) {
			var c healthCommand
			c.flags(cmd)
			cmd.Args = command.FlagsOnly("--url is the URL to ask")
			// Not caddycmd.WrapCommandFuncForCobra: it reports errors to
			// Caddy's log, as JSON where there is no terminal.
			cmd.RunE = func(*cobra.Command, []string) error { return c.run() }
		},
	})
}

// healthCommand is a run of caddy hermes-health.
type healthCommand struct {
	url     string
	timeout time.Duration
}

func (c *healthCommand) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.url, "url", healthURL, "URL to ask")
	cmd.Flags().DurationVar(&c.timeout, "timeout", healthTimeout, "How long the answer may take")
}

// run returns nil if the answer has a status 2xx.
func (c *healthCommand) run() error {
	if c.timeout <= 0 {
		return fmt.Errorf("--timeout %v: use a duration above 0", c.timeout)
	}
	u, err := url.Parse(c.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--url %q: use a URL such as %s", c.url, healthURL)
	}
	client := &http.Client{
		// Not the default transport, which may use a proxy: the address is usually a loopback one.
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       c.timeout,
	}
	res, err := client.Get(u.String())
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the request that net/http puts in front of it
		if wrapped.Timeout() {
			err = fmt.Errorf("no answer within %v", c.timeout)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("%s: the answer is %d %s", u.Redacted(), res.StatusCode, http.StatusText(res.StatusCode))
	}
	return nil
}
