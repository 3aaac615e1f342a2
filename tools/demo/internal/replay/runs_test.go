package replay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// askRun asks for a scenario as a part of a run.
func askRun(t *testing.T, addr, run string) *http.Response {
	t.Helper()
	req, err := http.NewRequest("POST", "http://"+addr+"/v1/chat/completions", strings.NewReader(`{"model": "one_tool", "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(RunHeader, run)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// gate is a clock on which every delay takes until the gate opens.
type gate struct {
	asleep sync.WaitGroup // sleepers to come
	open   chan struct{}
}

func (*gate) Now() time.Time { return time.Time{} }

func (g *gate) Sleep(ctx context.Context, _ time.Duration) error {
	select {
	case <-g.open:
		return nil
	default:
	}
	g.asleep.Done()
	select {
	case <-g.open:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func TestKillCutsTheConnectionsOfARunAlone(t *testing.T) {
	clock := &gate{open: make(chan struct{})}
	backend := &Backend{Scenarios: Scenarios(), Speed: 1, Clock: clock}
	addr := serve(t, backend)
	clock.asleep.Add(4)
	one, other := askRun(t, addr, "a"), askRun(t, addr, "a")
	spared, nameless := askRun(t, addr, "b"), askRun(t, addr, "")
	clock.asleep.Wait()
	for run, want := range map[string]int{"": 0, "c": 0, "a": 2} {
		if n := backend.Kill(run); n != want {
			t.Errorf("killed %d of run %q, want %d", n, run, want)
		}
	}
	close(clock.open)
	for _, resp := range []*http.Response{one, other} {
		if got, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("killed: %q, error %v, want unexpected EOF", got, err)
		}
	}
	for _, resp := range []*http.Response{spared, nameless} {
		got, err := io.ReadAll(resp.Body)
		if err != nil || string(got) != string(recording(t, "g0-v0.8.0", "one_tool")) {
			t.Errorf("spared: %q, error %v", got, err)
		}
	}
	if n := backend.Kill("b"); n != 0 {
		t.Errorf("killed %d of a run that is over", n)
	}
	backend.runs.mu.Lock()
	defer backend.runs.mu.Unlock()
	if n := len(backend.runs.open); n != 0 {
		t.Errorf("%d runs are remembered", n)
	}
}

func TestSpeedHeaderSlowsOneReplay(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 1450 * time.Millisecond, "0.25": 5800 * time.Millisecond,
		"2": 1450 * time.Millisecond, "0": 1450 * time.Millisecond, "-1": 1450 * time.Millisecond,
		"NaN": 1450 * time.Millisecond, "slow": 1450 * time.Millisecond,
	} {
		clock := new(fakeClock)
		addr := serve(t, &Backend{Scenarios: Scenarios(), Speed: 1, Clock: clock})
		req, err := http.NewRequest("POST", "http://"+addr+"/v1/chat/completions", strings.NewReader(`{"model": "one_tool", "stream": true}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(SpeedHeader, header)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		var sum time.Duration
		for _, d := range clock.delays {
			sum += d
		}
		if sum != want {
			t.Errorf("%q: waited %v, want %v", header, sum, want)
		}
	}
}
