// Command bench measures the sidecar: what it costs beside the bare reverse_proxy of the same
// binary, whether it bears ten thousand streams, and how other proxies do. The proxy has one core
// and this process, which is both backend and clients, another. Every stream is checked from its
// first byte to its last. It uses only the loopback interface.
//
//	go -C integration run ./bench goals     the budgets of README.md, 30 minutes
//	go -C integration run ./bench soak      ten thousand streams for ten minutes, 15 in all
//	go -C integration run ./bench peers     beside nginx, Envoy and gateways, 15 minutes
package main

import (
	"errors"
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
	commands := map[string]func(*flag.FlagSet) func(stage) error{"goals": goalsCommand, "soak": soakCommand, "peers": peersCommand}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("name what to measure: goals, soak or peers")
	}
	flags := flag.NewFlagSet("bench "+args[0], flag.ContinueOnError)
	measure := commands[args[0]](flags)
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if err := stayOn(othersCore); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "hermes-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	s := stage{work: work}
	if s.caddy, err = buildCaddy(work); err != nil {
		return err
	}
	if s.backend, err = startBackend(); err != nil {
		return err
	}
	return measure(s)
}

// A stage has what every measurement needs.
type stage struct {
	work    string // a directory
	caddy   caddy
	backend string // its address
}
