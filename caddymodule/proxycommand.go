package caddymodule

import (
	"fmt"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddypki"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/command"
	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
	"github.com/hermes-sidecar/hermes-sidecar/internal/site"
)

// The default addresses, with the ports of the documentation: the sidecar's, and Hermes' own.
const (
	proxyFrom = ":8643"
	proxyTo   = "127.0.0.1:8642"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "hermes-proxy",
		Usage: `[--from <addr>] [--to <addr>] [--bind <ip>] [--change-host-header] [--insecure] [--internal-certs] [--install-trust] [--disable-redirects] ` +
			`[--header-up "Field: value"] [--header-down "Field: value"] [--resume] [--access-log] [--debug] [--<option of the hermes directive> <value>]`,
		Short: "Repairs the streams of a Hermes agent, as a reverse proxy in front of it",
		Long: `
A reverse proxy like caddy reverse-proxy, with the Hermes sidecar in it. It
needs no configuration file, and saves none:

  $ caddy hermes-proxy
  $ caddy hermes-proxy --from :8643 --to 127.0.0.1:8642 --progress unnamed

Multiple --to addresses may be specified by repeating the flag. Unless
otherwise specified in the addresses, the --from address will be assumed to be
HTTPS if a host or IP is given, and the --to address will be assumed to be HTTP.

WHO MAY CONNECT. Hermes runs commands, and asks for no key unless its
API_SERVER_KEY is set. So, if the --from address has no host, only this machine
can connect, unlike with caddy reverse-proxy:

  --from :8643                    http on 127.0.0.1
  --from localhost:8643           https on 127.0.0.1
  --from http://192.168.1.5:8643  http on this address
  --from 0.0.0.0:8643             http on every interface
  --from hermes.example.com       https on every interface

--bind overrides this. It takes the IP addresses to listen on, such as 0.0.0.0 in
a container.

If serving HTTPS:
  --disable-redirects can be used to avoid listening on the HTTP port, from
    which requests are redirected to HTTPS. With certificates of the internal
    CA on a port other than 443, nothing is redirected in any case.
  --internal-certs can be used to force certificates of the internal CA instead
    of attempting to get a public certificate. localhost and IP addresses get
    one of the internal CA in any case.
  --install-trust puts the internal CA's root certificate in the trust stores
    of this system, if the user has the right to. Without it, unlike in caddy
    reverse-proxy, you have to give the certificate to clients: the log says
    where it is.

For proxying:
  --header-up can be used to set a request header to send to the upstream.
  --header-down can be used to set a response header to send back to the client.
  --change-host-header sets the Host header on the request to the address
    of the upstream, instead of defaulting to the incoming Host header.
    This is a shortcut for --header-up "Host: {http.reverse_proxy.upstream.hostport}".
  --insecure disables TLS verification with the upstream. WARNING: THIS
    DISABLES SECURITY BY NOT VERIFYING THE UPSTREAM'S CERTIFICATE.
  --resume is for an upstream that is a distant site with hermes_resume. When
    the connection to it breaks, the proxy tries for a minute to come back, and
    continues the stream: the client notices nothing. When the client leaves,
    the agent is stopped.

Idle connections to the upstream are closed after 4 seconds, before Hermes
closes them.

All other flags are the options of the hermes directive, with the same values
and defaults; --keepalive-form is its keepalive_form.

On SIGTERM and Ctrl-C, open streams have --drain-timeout to end. Those that are
still open then get an error and a clean end. 10 seconds later every connection
is closed.
`,
		CobraFunc: func(cmd *cobra.Command) {
			var c proxyCommand
			c.flags(cmd)
			cmd.Args = cobra.NoArgs
			cmd.RunE = caddycmd.WrapCommandFuncForCobra(c.run)
		},
	})
}

// proxyCommand has the flags of a run of caddy hermes-proxy. options are those of the handler.
type proxyCommand struct {
	from             string
	to, bind         []string
	headerUp         []string
	headerDown       []string
	changeHost       bool
	insecure         bool
	resume           bool
	disableRedirects bool
	internalCerts    bool
	installTrust     bool
	accessLog, debug bool
	options          command.OptionFlags
}

// flags defines the flags of cmd, which are read into c. Flags of caddy reverse-proxy have the same
// names, shorthands and meanings here (reverseproxy/command.go). Each option of the handler is also
// a flag.
func (c *proxyCommand) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&c.from, "from", "f", proxyFrom, "Address on which to receive traffic")
	f.StringSliceVarP(&c.to, "to", "t", []string{proxyTo}, "Upstream address(es) to which traffic should be sent")
	f.StringSliceVarP(&c.bind, "bind", "b", nil, "Interface(s) to listen on, each an IP address (default: depends on --from)")
	f.BoolVarP(&c.changeHost, "change-host-header", "c", false, "Set upstream Host header to address of upstream")
	f.BoolVar(&c.insecure, "insecure", false, "Disable TLS verification (WARNING: DISABLES SECURITY BY NOT VERIFYING TLS CERTIFICATES!)")
	f.BoolVarP(&c.disableRedirects, "disable-redirects", "r", false, "Disable HTTP->HTTPS redirects")
	f.BoolVarP(&c.internalCerts, "internal-certs", "i", false, "Use internal CA for issuing certs")
	f.BoolVar(&c.installTrust, "install-trust", false, "Put the internal CA's root certificate in the trust stores of this system")
	f.StringArrayVarP(&c.headerUp, "header-up", "H", nil, `Set a request header to send to the upstream (format: "Field: value")`)
	f.StringArrayVarP(&c.headerDown, "header-down", "d", nil, `Set a response header to send back to the client (format: "Field: value")`)
	f.BoolVar(&c.resume, "resume", false, "Continue streams when the connection to the upstream breaks (the upstream must have hermes_resume)")
	f.BoolVar(&c.accessLog, "access-log", false, "Enable the access log")
	f.BoolVarP(&c.debug, "debug", "v", false, "Enable verbose debug logs")

	c.options = command.NewOptionFlags(cmd, options.All())
}

// run starts the proxy. It returns only if that fails: once the proxy runs, signals end the process
// (caddy.TrapSignals).
func (c *proxyCommand) run(caddycmd.Flags) (int, error) {
	caddy.TrapSignals()

	p, err := c.prepare()
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	for _, addr := range p.Listen {
		if err := site.PortFree(addr); err != nil {
			return caddy.ExitCodeFailedStartup, fmt.Errorf("%w (--from and --bind choose where to listen)", err)
		}
	}
	if err := caddy.Run(p.Config); err != nil {
		return caddy.ExitCodeFailedStartup, err
	}

	log := caddy.Log()
	log.Info("hermes proxying", zap.String("from", p.URL), zap.Strings("to", c.to), zap.Strings("listen", p.Listen))
	if len(c.to) > 1 {
		log.Info("using default load balancing policy", zap.String("policy", "random"))
	}
	if p.internalCA && !c.installTrust {
		log.Info("the certificate is the internal CA's: clients have to trust its root, or use --install-trust",
			zap.String("root", filepath.Join(caddy.AppDataDir(), "pki", "authorities", caddypki.DefaultCAID, "root.crt")))
	}
	if !p.Loopback() {
		log.Warn("other machines may connect, and Hermes runs commands: set its API_SERVER_KEY, or use --bind 127.0.0.1")
	}
	select {}
}
