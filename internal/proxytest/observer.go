package proxytest

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// An Observer is a proxy.Observer that records what it observes.
type Observer struct {
	t        *testing.T
	r        *http.Request // the client's
	Markers  int
	Begun    proxy.Begun
	Lines    []string
	Recorded string
	Ends     []proxy.Result
}

func (o *Observer) check(r *http.Request) {
	if r != o.r {
		o.t.Error("the observer was not given the client's request")
	}
}

// Request notes the markers that a request was healed of.
func (o *Observer) Request(r *http.Request, read rewrite.Healed) {
	o.check(r)
	o.Markers += read.Markers
}

// Begin notes a stream, or a whole answer.
func (o *Observer) Begin(r *http.Request, b proxy.Begun) proxy.AnswerObserver {
	o.check(r)
	o.Begun = b
	o.add("begin " + r.URL.Path + " " + string(b.Kind))
	return o
}

// Raw notes what upstream sent.
func (o *Observer) Raw(b []byte) { o.Recorded += string(b) }

// Read notes how far a stream is.
func (o *Observer) Read(now time.Time, chunks int, s proxy.Summarizer) {
	o.add(fmt.Sprintf("%d chunks of %q after %v", chunks, s.Summary().ID, now.Sub(o.Begun.Since)))
}

// Tool notes a tool that starts or ends.
func (o *Observer) Tool(now time.Time, e rewrite.ToolEvent) {
	o.add(fmt.Sprintf("tool %s %t %s after %v", e.Name, e.Completed, e.Source, now.Sub(o.Begun.Since)))
}

// End notes how it ended.
func (o *Observer) End(r *http.Request, res proxy.Result) {
	o.check(r)
	if res.Whole != (o.Begun.Kind == proxy.KindWhole) {
		o.t.Errorf("the end of a %s is %+v", o.Begun.Kind, res)
	}
	o.add("end " + res.Outcome)
	o.Ends = append(o.Ends, res)
}

func (o *Observer) add(line string) {
	if o.Begun.Kind != proxy.KindWhole {
		o.Lines = append(o.Lines, line)
	}
}
