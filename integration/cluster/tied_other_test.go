//go:build !linux

package cluster

import "os/exec"

func startTied(cmd *exec.Cmd) error { return cmd.Start() }
