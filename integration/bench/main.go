// Command bench measures the sidecar: what it costs beside the bare reverse_proxy
// of the same binary, whether it stands ten thousand streams, and how its peers
// do. Upstream, clients and proxies are processes of their own, the proxy on one
// core and the others on another, and every stream is checked from its first byte
// to its last. It speaks to the loopback only, and ends by itself.
//
//	go -C integration run ./bench goals     the budgets of docs/performance.md, 30 minutes
//	go -C integration run ./bench soak      ten thousand streams for ten minutes, 15 in all
//	go -C integration run ./bench peers     beside nginx, Envoy and gateways, 15 minutes
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case roleUpstream:
		return runUpstream()
	case roleSoaker:
		return runSoaker()
	case roleTurns:
		return runTurns()
	case roleClient:
		return runClient()
	}
	flags := flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	var do func() error
	switch name {
	case "soak":
		s := soakFlags(flags)
		do = func() error { return runSoak(s) }
	case "peers":
		b := besideFlags(flags)
		do = func() error { return runBeside(b) }
	case "goals":
		g := goalFlags(flags)
		do = func() error { return runGoals(g) }
	default:
		return fmt.Errorf("what is to be measured? goals, soak or peers, not %q", name)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	return do()
}
