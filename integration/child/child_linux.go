package child

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter hands commands to the thread that starts them all. A child with
// Pdeathsig dies with the thread that has started it, not with the process: this
// one is used for nothing else, and stays.
var starter = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

// Start is cmd.Start, of a process that is killed when this one ends.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	return <-started
}
