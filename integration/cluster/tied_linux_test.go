package cluster

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startTied starts a server that is killed when this process ends, however that does.
// Its parent is a thread, which is kept for it (see integration/child).
func startTied(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		select {}
	}()
	return <-started
}
