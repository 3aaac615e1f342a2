package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// A driver is a running program that uses one client as its documentation
// shows, in the protocol of clients/README.md.
type driver struct {
	t       testing.TB
	version string // of the client, as the installed package says
	stderr  *harness.Log
	hello   chan error // how the start went

	mu      sync.Mutex
	in      *json.Encoder
	ids     int
	waiting map[int]chan seen
	dead    chan struct{} // closed at the end of stdout
}

// A seen is what a program that uses the client has seen of one answer.
type seen struct {
	ID        int       `json:"id"`
	Text      string    `json:"text"`
	Reasoning string    `json:"reasoning"`
	Tools     []string  `json:"tools"`  // such as "terminal running"
	Finish    string    `json:"finish"` // the last finish reason
	Error     *seenFail `json:"error"`

	at   time.Time // when it came
	hung bool      // nothing came
}

// A seenFail is a failure as the program has seen it.
type seenFail struct {
	How     string `json:"how"` // exception, error, panic, part, callback, …
	Type    string `json:"type"`
	Message string `json:"message"`
	Code    string `json:"code"`
}

// startDriver starts a driver. It may be asked once it is ready.
func startDriver(t testing.TB, cmd *exec.Cmd) *driver {
	t.Helper()
	d := &driver{t: t, stderr: harness.NewLog(), hello: make(chan error, 1), waiting: map[int]chan seen{}, dead: make(chan struct{})}
	cmd.Stderr = d.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	d.in = json.NewEncoder(stdin)
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill() // it may still wait for a retry
		<-d.dead
		cmd.Wait()
		if t.Failed() {
			t.Logf("stderr of the driver:\n%s", harness.Clip(d.stderr.String()))
		}
	})
	go d.listen(bufio.NewReader(stdout))
	return d
}

// ready returns when the driver has said its client's version.
func (d *driver) ready() {
	d.t.Helper()
	select {
	case err := <-d.hello:
		if err != nil {
			d.t.Fatalf("the driver does not start: %v\n%s", err, d.stderr)
		}
	case <-time.After(startPatience):
		d.t.Fatalf("the driver does not start\n%s", d.stderr)
	}
}

// startPatience bounds the start of a driver: an interpreter with a cold cache,
// on a busy machine.
const startPatience = 5 * time.Minute

// listen reads the driver's lines.
func (d *driver) listen(out *bufio.Reader) {
	defer close(d.dead)
	first := true
	for {
		line, err := out.ReadBytes('\n')
		now := time.Now()
		if err != nil {
			if first {
				d.hello <- err
			}
			return
		}
		if first {
			var h struct{ Version string }
			err := json.Unmarshal(line, &h)
			if err == nil && h.Version == "" {
				err = fmt.Errorf("no version in %q", line)
			}
			d.version = strings.TrimPrefix(h.Version, "v")
			d.hello <- err
			first = false
			continue
		}
		var s seen
		if err := json.Unmarshal(line, &s); err != nil {
			d.stderr.Write(append([]byte("not JSON on stdout: "), line...))
			continue
		}
		s.at = now
		d.mu.Lock()
		if c := d.waiting[s.ID]; c != nil {
			delete(d.waiting, s.ID)
			c <- s
		}
		d.mu.Unlock()
	}
}

// ask has the client send a prompt, and returns what the program has seen, or a
// hang when that takes longer than the bound.
func (d *driver) ask(base, prompt string, bound time.Duration) seen {
	return d.send(map[string]any{"base_url": base + "/v1", "prompt": prompt}, bound)
}

// askWhole is ask for an answer that is not streamed.
func (d *driver) askWhole(base, prompt string, bound time.Duration) seen {
	return d.send(map[string]any{"base_url": base + "/v1", "prompt": prompt, "whole": true}, bound)
}

// send sends a case, to which it gives an id.
func (d *driver) send(c map[string]any, bound time.Duration) seen {
	got := make(chan seen, 1)
	d.mu.Lock()
	d.ids++
	id := d.ids
	d.waiting[id] = got
	c["id"] = id
	err := d.in.Encode(c)
	d.mu.Unlock()
	if err != nil {
		return seen{Error: &seenFail{How: "crash", Message: err.Error()}, at: time.Now()}
	}
	select {
	case s := <-got:
		return s
	case <-d.dead:
		return seen{Error: &seenFail{How: "crash", Message: "the program has ended"}, at: time.Now()}
	case <-time.After(bound):
		return seen{hung: true, at: time.Now()}
	}
}
