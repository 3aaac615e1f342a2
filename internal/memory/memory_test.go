package memory

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/internal/client"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// turnOf returns the turn i.
func turnOf(i int) rewrite.Turn {
	return rewrite.Turn{Question: rewrite.TextOf(fmt.Sprint("q", i)), Answer: rewrite.TextOf(fmt.Sprint("a", i))}
}

// tools returns tools with so many bytes of arguments, which are parts of larger texts.
func tools(n, size int) (all []rewrite.ToolRun) {
	for i := range n {
		args := fmt.Sprintf("%0*d", size, i) + strings.Repeat(" ", size)
		all = append(all, rewrite.ToolRun{Name: strings.Repeat("terminal", 2)[:8], Args: args[:size], Ended: "completed"})
	}
	return all
}

func TestMemoryTakesNoMoreThanItsBound(t *testing.T) {
	alone.NotUnderRace(t)
	if alone.Elsewhere(t) {
		return
	}
	for name, c := range map[string]struct{ clients, tools, size int }{
		"small": {1, 1, 0}, "many clients": {1 << 30, 1, 10}, "many tools": {10, 200, 10}, "large": {10, 8, 2 << 10}, "no tools": {1 << 30, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			s := new(Store)
			n := 0
			for i := range 100_000 {
				s.Of(client.Named(fmt.Sprint(i%c.clients))).Remember(turnOf(i), tools(c.tools, c.size))
				if n++; s.latest.Len() < i { // it has been full for long
					break
				}
			}
			if got := heap() - before; got > maxMemory || got < maxMemory/4 {
				t.Errorf("%d answers take %d bytes of %d", s.latest.Len(), got, maxMemory)
			}
			last := s.Of(client.Named(fmt.Sprint((n - 1) % c.clients)))
			if last.Recall(turnOf(n-1)) == nil && c.tools > 0 || s.Of(client.Named("0")).Recall(turnOf(0)) != nil {
				t.Error("the latest has gone, or the oldest has not")
			}
			for s.latest.Len() > 0 {
				s.forget(s.latest.Back())
			}
			if s.size != 0 || len(s.answers) != 0 || len(s.clients) != 0 || !last.Empty() {
				t.Errorf("%d bytes, %d answers, %d clients are left", s.size, len(s.answers), len(s.clients))
			}
		})
	}
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // a sync.Pool lets go of what it has at the second
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// What is asked for stays, and what is not asked for longest goes first.
func TestWhatIsAskedForStays(t *testing.T) {
	s := new(Store)
	m := s.Of(client.Named("ada"))
	for i := range 20_000 {
		m.Remember(turnOf(i), tools(1, 1000))
		m.Recall(turnOf(7))
	}
	if m.Recall(turnOf(7)) == nil || m.Recall(turnOf(8)) != nil {
		t.Error("the wrong one has gone")
	}
}

// Answers that are alike are told apart by those before them.
func TestLikeAnswers(t *testing.T) {
	s := new(Store)
	ada, bob := s.Of(client.Named("ada")), s.Of(client.Named("bob"))
	at := func(before int) rewrite.Turn {
		turn := turnOf(1)
		if before > 0 {
			turn.Before = turnOf(before).Answer
		}
		return turn
	}
	recalls := func(m rewrite.Memory, turn rewrite.Turn, want string) {
		t.Helper()
		got := ""
		for _, tool := range m.Recall(turn) {
			got += tool.Name
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	named := func(name string) []rewrite.ToolRun { return []rewrite.ToolRun{{Name: name}} }
	ada.Remember(at(2), named("second"))
	recalls(ada, at(2), "second")
	recalls(ada, at(0), "second") // a cut history: it is the only one
	recalls(ada, at(3), "")
	recalls(bob, at(2), "")
	ada.Remember(at(3), named("third"))
	recalls(ada, at(0), "")
	ada.Remember(at(0), named("first"))
	recalls(ada, at(0), "first")
	recalls(ada, at(3), "third")
	ada.Remember(at(3), nil) // the same answer again, without tools
	recalls(ada, at(3), "")
	ada.Remember(rewrite.Turn{Answer: turnOf(1).Answer}, named("no question"))
	recalls(ada, rewrite.Turn{Answer: turnOf(1).Answer}, "")
	for i := 10; i < 10+maxLike; i++ {
		ada.Remember(at(i), named(fmt.Sprint(i)))
	}
	recalls(ada, at(2), "")
	recalls(ada, at(10), "10")
	if n := len(s.answers[key{client.Named("ada"), turnOf(1).Question, turnOf(1).Answer}]); n != maxLike {
		t.Errorf("%d are alike", n)
	}
	if !bob.Empty() || ada.Empty() {
		t.Error("empty")
	}
}
