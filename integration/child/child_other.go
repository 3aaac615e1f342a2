//go:build !linux

package child

import "os/exec"

// Start is cmd.Start.
func Start(cmd *exec.Cmd) error { return cmd.Start() }
