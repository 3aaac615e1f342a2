package harness

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
)

// A Process is a running program whose output is kept. It ends with the test.
type Process struct {
	Cmd    *exec.Cmd
	Log    *Log          // what it writes to stderr, and to stdout unless that goes elsewhere
	Exited chan struct{} // closed once the process is gone
	Err    error         // of the process, valid once Exited is closed
}

// Start starts a command. The process is killed at the end of the test if it still runs,
// and its log is shown if the test has failed.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, Log: &Log{}, Exited: make(chan struct{})}
	cmd.Stderr = p.Log
	if cmd.Stdout == nil {
		cmd.Stdout = p.Log
	}
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.Err = cmd.Wait()
		close(p.Exited)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", filepath.Base(cmd.Path), p.Log)
		}
	})
	return p
}

// Kill kills the process and waits for its end.
func (p *Process) Kill() {
	p.Cmd.Process.Kill() // of a process that has ended, it does nothing
	<-p.Exited
}

// Await waits for a text in the log. It returns false if the process or Patience ends
// first.
func (p *Process) Await(text string) bool { return p.AwaitWithin(Patience, text) }

// AwaitWithin is Await with a patience of d.
func (p *Process) AwaitWithin(d time.Duration, text string) bool {
	for deadline := time.After(d); !strings.Contains(p.Log.String(), text); {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-p.Exited:
			return strings.Contains(p.Log.String(), text)
		case <-deadline:
			return false
		}
	}
	return true
}

// A Log keeps what a process writes.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns what has been written so far. Its last line may not be whole.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Entries returns the lines that the handler's own logger has written, decoded.
func (l *Log) Entries() []map[string]any {
	var own []map[string]any
	for line := range strings.Lines(l.String()) {
		var e map[string]any
		if json.Unmarshal([]byte(line), &e) != nil {
			continue
		}
		if name, _ := e["logger"].(string); strings.HasPrefix(name, "http.handlers.hermes") {
			own = append(own, e)
		}
	}
	return own
}
