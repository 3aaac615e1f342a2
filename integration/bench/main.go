// Command bench measures the sidecar: what it costs beside the bare reverse_proxy of the same
// binary, whether it bears ten thousand streams, and how other proxies do. Backend, clients and
// proxies are processes of their own, the proxy on one core and the others on another, and every
// stream is checked from its first byte to its last. It uses only the loopback interface.
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
	if run := roles[name]; run != nil {
		return run()
	}
	setUp := map[string]func(*flag.FlagSet) func(stage) error{"goals": goalsCommand, "soak": soakCommand, "peers": peersCommand}[name]
	if setUp == nil {
		return fmt.Errorf("name what to measure: goals, soak or peers, not %q", name)
	}
	flags := flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	measure := setUp(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := newStage()
	if err != nil {
		return err
	}
	defer s.close()
	return measure(s)
}

// A stage has what every measurement needs.
type stage struct {
	work    string // a directory
	caddy   caddy
	backend string // its address
	stop    func() // stops the backend
}

func newStage() (s stage, err error) {
	if s.work, err = os.MkdirTemp("", "hermes-bench-"); err != nil {
		return s, err
	}
	if s.caddy, err = buildCaddy(s.work); err == nil {
		s.backend, s.stop, err = startBackend()
	}
	if err != nil {
		os.RemoveAll(s.work)
	}
	return s, err
}

func (s stage) close() {
	s.stop()
	os.RemoveAll(s.work)
}
