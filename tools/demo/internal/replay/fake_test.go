package replay

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// fakeClock is a clock on which waiting takes no time: it moves the time on
// and remembers the delay.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	delays []time.Duration
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.delays = append(c.delays, d)
	return ctx.Err()
}

// recording reads a recorded stream of any release.
func recording(t *testing.T, release, name string) []byte {
	t.Helper()
	stream, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "testdata", "captures", release, name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// byName returns a scenario.
func byName(t *testing.T, name string) Scenario {
	t.Helper()
	chosen, err := Select([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return chosen[0]
}
