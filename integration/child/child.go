// Package child starts processes that do not outlive the one that starts them,
// however that ends: by a panic, by os.Exit, or killed. Linux sees to it; other
// systems cannot, and leave a process that is not stopped.
package child

import "os/exec"

// Run is cmd.Run, of a process that is killed when this one ends.
func Run(cmd *exec.Cmd) error {
	if err := Start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}
