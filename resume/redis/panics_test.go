package redis

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// panicking is a run that panics when it is told anything.
type panicking struct{ told atomic.Int64 }

func (p *panicking) ReadersChanged(int) { p.told.Add(1); panic("a test panics") }

func (p *panicking) Cancel(resume.Reason) { p.told.Add(1); panic("a test panics") }

// TestPanicsEndNothing has runs panic in each goroutine of a store that calls them: the process
// goes on, and so do other streams of the store.
func TestPanicsEndNothing(t *testing.T) {
	for what, f := range map[string]*fake{
		"a reader elsewhere":     {point: "refresh", reply: []byte(array(":0\r\n", ":1\r\n"))},
		"it is cancelled":        {point: "refresh", reply: []byte(array(":1\r\n", ":0\r\n"))},
		"a message of a replica": {point: "xread", reply: []byte(array(array(text("replica"), array(array(text("1-1"), array(text("id"), text("stream_told")))))))},
	} {
		t.Run(what, func(t *testing.T) {
			f.start(t)
			s, logs := f.replica(t, nil)
			p := new(panicking)
			e := entry(what)
			if f.point == "xread" {
				e.ID = "stream_told"
			}
			l := claim(t, s, e, p)
			begin(t, l)
			add(t, l, event(1))
			until(t, "the run panics", func() bool { return p.told.Load() > 0 })
			until(t, "that is logged", func() bool { return logs.FilterMessageSnippet("panic").Len() > 0 })
			add(t, l, event(2))
			l.End(resume.Whole)
			if _, w, _ := s.Claim(context.Background(), entry("other"), newRun()); w != nil {
				w.End(resume.Dropped)
			}
		})
	}
}
