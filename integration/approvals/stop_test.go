//go:build unix

package approvals

import (
	"syscall"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// stop stops a process, which then answers nothing until goOn.
func stop(t *testing.T, p *sidecar.Process) { signal(t, p, syscall.SIGSTOP) }

func goOn(t *testing.T, p *sidecar.Process) { signal(t, p, syscall.SIGCONT) }

func signal(t *testing.T, p *sidecar.Process, s syscall.Signal) {
	t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
