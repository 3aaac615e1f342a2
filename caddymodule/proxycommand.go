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
		Short: "Runs a reverse proxy that repairs the streams of a Hermes agent",
		Long: `
Runs a reverse proxy like caddy reverse-proxy with the Hermes sidecar in front
of the agent. It needs no configuration file and saves none:

  $ caddy hermes-proxy
  $ caddy hermes-proxy --from :8643 --to 127.0.0.1:8642 --progress unnamed

Multiple --to addresses may be specified by repeating the flag. Unless
otherwise specified in the addresses, the --from address will be assumed to be
HTTPS if a host or IP is given, and the --to address will be assumed to be HTTP.

WHO MAY CONNECT. Hermes runs commands, and requires no key unless its
API_SERVER_KEY is set. If the --from address has no host, only this machine can
connect, unlike with caddy reverse-proxy:

  --from :8643                    http on 127.0.0.1
  --from localhost:8643           https on 127.0.0.1
  --from http://192.168.1.5:8643  http on this address
  --from 0.0.0.0:8643             http on every interface
  --from hermes.example.com       https on every interface

--bind overrides this with the IP addresses to listen on, such as 0.0.0.0 in a
container.

If serving HTTPS:
  --disable-redirects can be used to avoid listening on the HTTP port, from
    which requests are redirected to HTTPS. Nothing is redirected if the
    certificate is from the internal CA and the port is not 443.
  --internal-certs can be used to force certificates of the internal CA instead
    of attempting to get a public certificate. localhost and IP addresses always
    get a certificate of the internal CA.
  --install-trust installs the internal CA's root certificate in the trust
    stores of this system, if the user may do that. Without it, unlike with
    caddy reverse-proxy, you have to install the certificate on clients
    yourself; the log names the file.

For proxying:
  --header-up can be used to set a request header to send to the upstream.
  --header-down can be used to set a response header to send back to the client.
  --change-host-header sets the Host header on the request to the address
    of the upstream, instead of defaulting to the incoming Host header.
    This is a shortcut for --header-up "Host: {http.reverse_proxy.upstream.hostport}".
  --insecure disables TLS verification with the upstream. WARNING: THIS
    DISABLES SECURITY BY NOT VERIFYING THE UPSTREAM'S CERTIFICATE.
  --resume is for an upstream on a distant site that uses hermes_resume. If the
    connection breaks, the proxy tries for a minute to reconnect, and continues
    the stream without the client noticing. When the client disconnects, the
    agent is stopped.

Idle connections to the upstream are closed after 4 seconds, before Hermes
closes them.

All other flags are the options of the hermes directive, with the same values
and defaults: --keepalive-form sets keepalive_form.

On SIGTERM and Ctrl-C, open streams may continue for --drain-timeout. Streams
that are still open after that end with an error. Every connection is closed 10
seconds later.
`,
		CobraFunc: func(cmd *cobra.Command) {
			var c proxyCommand
			c.flags(cmd)
			cmd.Args = command.FlagsOnly("--to is the agent's address")
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
	f.BoolVar(&c.resume, "resume", false, "Continue streams when the connection to the upstream breaks (the upstream must use hermes_resume)")
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
			return caddy.ExitCodeFailedStartup, fmt.Errorf("%w (use --from and --bind to choose where to listen)", err)
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
		log.Info("the certificate is from the internal CA: install its root certificate on clients, or use --install-trust",
			zap.String("root", filepath.Join(caddy.AppDataDir(), "pki", "authorities", caddypki.DefaultCAID, "root.crt")))
	}
	if !p.Loopback() {
		log.Warn("other machines can connect, and Hermes runs commands: set its API_SERVER_KEY, or use --bind 127.0.0.1")
	}
	select {}
}
