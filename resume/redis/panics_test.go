package redis

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// panicking returns a run that panics when it is told anything, and counts that.
func panicking(told *atomic.Int64) resume.Run {
	return resume.Run{
		ReadersChanged: func(int) { told.Add(1); panic("a test panics") },
		Cancel:         func(resume.Reason) { told.Add(1); panic("a test panics") },
	}
}

// TestPanicsEndNothing has runs panic in each goroutine of a store that calls them: the process
// goes on, and so do other streams of the store.
func TestPanicsEndNothing(t *testing.T) {
	for what, f := range map[string]*fake{
		"a reader elsewhere": {point: "write", reply: []byte(array(":0\r\n", ":1\r\n"))},
		"it is cancelled":    {point: "write", reply: []byte(array(":1\r\n", ":0\r\n"))},
	} {
		t.Run(what, func(t *testing.T) {
			f.start(t)
			s, logs := f.replica(t, nil)
			var told atomic.Int64
			e := entry(what)
			_, l, err := s.Claim(context.Background(), e, panicking(&told))
			if err != nil || l == nil {
				t.Fatal(err)
			}
			begin(t, l)
			add(t, l, event(1))
			until(t, "the run panics", func() bool { return told.Load() > 0 })
			until(t, "that is logged", func() bool { return logs.FilterMessageSnippet("panic").Len() > 0 })
			add(t, l, event(2))
			l.End(resume.Whole)
			if _, w, _ := s.Claim(context.Background(), entry("other"), newRun().callbacks()); w != nil {
				w.End(resume.Dropped)
			}
		})
	}
}
