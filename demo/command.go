// Package demo registers the command hermes-demo, which shows what the sidecar
// repairs, with the page and the recordings that it needs: it replays recorded streams
// of Hermes, reads each of them straight from the backend and through a sidecar, and prints
// both as a chat client would show them. A Caddy has it only if it imports this package, as
// its cmd/caddy does; nothing here is exported.
package demo

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// The ports that stay open with --listen, those of Hermes and of the sidecar
// in the documentation.
const (
	backendAddr = "127.0.0.1:8642"
	sidecarAddr = "127.0.0.1:8643"
	// freeAddr is any free port.
	freeAddr = "127.0.0.1:0"
)

// help is the text of --help.
//
//go:embed help.txt
var help string

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "hermes-demo",
		Usage: "[--scenario <name>] [--speed <factor>] [--raw] [--listen] [--page] [--backend-addr <addr>] [--sidecar-addr <addr>] [--page-addr <addr>] [--verbose]",
		Short: "Shows what the Hermes sidecar repairs",
		Long:  "\n" + strings.Replace(help, "SCENARIOS", allNames(), 1),
		CobraFunc: func(cmd *cobra.Command) {
			c := command{out: os.Stdout}
			f := cmd.Flags()
			f.StringSliceVarP(&c.scenarios, "scenario", "s", nil, "Show this scenario; repeat it, or use commas (default: the first ten)")
			f.Float64Var(&c.speed, "speed", 1, "Speed of the backend: 2 is twice as fast, 0 removes all delays")
			f.BoolVar(&c.raw, "raw", false, "Print the frames as they arrive instead of what a client shows")
			f.BoolVarP(&c.listen, "listen", "l", false, "Keep both ports open afterwards, until Ctrl-C")
			f.BoolVarP(&c.page, "page", "p", false, "Serve the demo as a web page until Ctrl-C instead of printing it")
			f.StringVar(&c.pageAddr, "page-addr", "", "Loopback address of the page, with --page or --listen (default: a free port)")
			f.StringVar(&c.backendAddr, "backend-addr", "", "Loopback address of the backend (default: a free port, with --listen "+backendAddr+")")
			f.StringVar(&c.sidecarAddr, "sidecar-addr", "", "Loopback address of the sidecar (default: a free port, with --listen "+sidecarAddr+")")
			f.BoolVarP(&c.verbose, "verbose", "v", false, "Print the sidecar's log to standard error")
			cmd.MarkFlagsMutuallyExclusive("page", "scenario")
			cmd.MarkFlagsMutuallyExclusive("page", "raw")
			// Not caddycmd.WrapCommandFuncForCobra: it reports errors to
			// Caddy's log, which the demo silences.
			cmd.Args = cobra.NoArgs
			cmd.RunE = func(*cobra.Command, []string) error {
				ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
				defer stop()
				c.screen = terminal(os.Stdout)
				return c.run(ctx)
			}
		},
	})
}

// command is a run of caddy hermes-demo.
type command struct {
	scenarios                []string
	speed                    float64
	raw, listen, verbose     bool
	page                     bool
	backendAddr, sidecarAddr string // "" for the default
	pageAddr                 string // "" for any free port

	out    io.Writer
	screen screen
}

// run starts the backend and the sidecar, shows the scenarios and, with
// --listen or --page, waits for ctx to end.
func (c command) run(ctx context.Context) (err error) {
	if c.speed < 0 || math.IsNaN(c.speed) || math.IsInf(c.speed, 0) {
		return fmt.Errorf("--speed %v: must not be negative", c.speed)
	}
	chosen, err := choose(c.scenarios)
	if err != nil {
		return fmt.Errorf("--scenario: %w", err)
	}
	if c.listen {
		c.backendAddr, c.sidecarAddr = cmp.Or(c.backendAddr, backendAddr), cmp.Or(c.sidecarAddr, sidecarAddr)
	}

	hermes := &backend{speed: c.speed}
	server, err := listen(cmp.Or(c.backendAddr, freeAddr), hermes)
	if err != nil {
		return fmt.Errorf("backend: %w (--backend-addr chooses its address)", err)
	}
	defer server.Close()
	c.backendAddr = server.Addr
	sidecar, err := startSidecar(cmp.Or(c.sidecarAddr, freeAddr), c.backendAddr, c.verbose)
	if err != nil {
		return fmt.Errorf("sidecar: %w (--sidecar-addr chooses its address)", err)
	}
	c.sidecarAddr = sidecar.addr
	defer func() {
		// The backend first: clients whose streams are open then get an error
		// finish of the sidecar, not a connection that is cut.
		server.Close()
		err = errors.Join(err, sidecar.stop())
	}()

	if c.page || c.listen {
		page, err := listen(cmp.Or(c.pageAddr, freeAddr), page(hermes, c.backendAddr, c.sidecarAddr))
		if err != nil {
			return fmt.Errorf("page: %w (--page-addr chooses its address)", err)
		}
		defer page.Close()
		c.pageAddr = page.Addr
	}
	if !c.page {
		err = c.show(ctx, chosen)
	}
	switch {
	case ctx.Err() != nil && !c.page:
		return errors.New("interrupted")
	case err != nil && !errors.Is(err, errNotRepaired) || !c.listen && !c.page:
		return err
	case err != nil: // the ports stay open, to see why
		fmt.Fprintln(c.out, "Error:", err)
	}
	if _, failed := fmt.Fprintf(c.out, "\n"+invitation, c.backendAddr, c.sidecarAddr, c.sidecarAddr, allNames(), c.pageAddr); failed != nil {
		return errors.Join(err, failed)
	}
	<-ctx.Done()
	return err
}

// invitation says how to use the ports that stay open, and the page.
//
//go:embed invitation.txt
var invitation string
