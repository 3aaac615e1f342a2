// Command hermes-sidecar is Caddy with the Hermes sidecar and only the Caddy modules that a
// sidecar needs (modules.go). It has Caddy's commands, such as run, validate, adapt and reload,
// and those of the sidecar. This builds a static binary, as in the image:
//
//	CGO_ENABLED=0 go build -trimpath -tags nobadger,nomysql,nopgx -ldflags "-s -w" ./cmd/hermes-sidecar
//
// The tags are those of Caddy's own releases. They leave out databases that only a certificate
// authority could use; Caddy's authority uses none of them.
package main

import (
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/hermes-sidecar/hermes-sidecar/internal/build"
)

func main() {
	if err := refuse(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	caddy.CustomBinaryName = "hermes-sidecar"
	caddy.CustomLongDescription = description
	caddy.CustomVersion = build.This().CustomVersion()
	caddycmd.Main()
}

// foreign has the commands that replace the running binary by one of Caddy's download page, which
// has all standard modules but no hermes.
var foreign = map[string]bool{"upgrade": true, "add-package": true, "remove-package": true}

// refuse returns an error if args name a foreign command. Caddy registers these commands itself,
// so they cannot be removed.
func refuse(args []string) error {
	if len(args) == 0 || !foreign[args[0]] {
		return nil
	}
	instead := "install the new version the way you installed this one, such as from its package or image " +
		"(https://github.com/hermes-sidecar/hermes-sidecar/releases)"
	if args[0] != "upgrade" {
		instead = "for other modules, build your own Caddy with hermes (https://github.com/hermes-sidecar/hermes-sidecar/blob/main/xcaddy.md)"
	}
	return fmt.Errorf("%s would replace this binary with one from Caddy's download server, which does not include hermes: %s", args[0], instead)
}

const description = `The Hermes sidecar stands in front of an unmodified Hermes agent and repairs the
stream of its /v1/chat/completions: tool events instead of markers in the text,
reasoning in a field of its own, an error instead of a silent end.

It is Caddy with the hermes module: a Caddyfile configures it, and it has Caddy's
commands. Without a configuration file:

  $ hermes-sidecar hermes-proxy --from :8643 --to 127.0.0.1:8642

With one:

  $ hermes-sidecar run --config /etc/hermes-sidecar/Caddyfile

Where the help says caddy, use the name of this binary.

It includes only the Caddy modules that a sidecar needs. It cannot serve files:
file_server, try_files, templates, php_fastcgi, push and filesystem are left out.
So are acme_server and events, which are of no use without plugins or other
machines. The commands upgrade, add-package and remove-package, which would
fetch another binary, fail. If you need any of these, build Caddy with the module.
`
