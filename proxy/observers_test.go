package proxy_test

import (
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// observers is an Observer that tells several.
type observers []proxy.Observer

func (o observers) Request(r *http.Request, read rewrite.Healed) {
	for _, each := range o {
		each.Request(r, read)
	}
}

func (o observers) Begin(r *http.Request, b proxy.Begun) proxy.AnswerObserver {
	var all answerObservers
	for _, each := range o {
		all = append(all, each.Begin(r, b))
	}
	return all
}

type answerObservers []proxy.AnswerObserver

func (a answerObservers) Raw(b []byte) {
	for _, each := range a {
		each.Raw(b)
	}
}

func (a answerObservers) Read(now time.Time, chunks int, s proxy.Summarizer) {
	for _, each := range a {
		each.Read(now, chunks, s)
	}
}

func (a answerObservers) Tool(now time.Time, e rewrite.ToolEvent) {
	for _, each := range a {
		each.Tool(now, e)
	}
}

func (a answerObservers) End(r *http.Request, res proxy.Result) {
	for _, each := range a {
		each.End(r, res)
	}
}

// observe has o tell one more.
func observe(o *proxy.Options, one proxy.Observer) {
	all, _ := o.Observer.(observers)
	o.Observer = append(all, one)
}

// deaf is an Observer of which a test uses a part.
type deaf struct{}

func (deaf) Request(*http.Request, rewrite.Healed)                 {}
func (deaf) Begin(*http.Request, proxy.Begun) proxy.AnswerObserver { return deaf{} }
func (deaf) Raw([]byte)                                            {}
func (deaf) Read(time.Time, int, proxy.Summarizer)                 {}
func (deaf) Tool(time.Time, rewrite.ToolEvent)                     {}
func (deaf) End(*http.Request, proxy.Result)                       {}

// onEnd is told how answers have ended.
type onEnd func(*http.Request, proxy.Result)

func (onEnd) Request(*http.Request, rewrite.Healed) {}

func (f onEnd) Begin(_ *http.Request, b proxy.Begun) proxy.AnswerObserver {
	return endOf{f: f, kind: b.Kind}
}

type endOf struct {
	deaf
	f    onEnd
	kind proxy.Kind
}

func (e endOf) End(r *http.Request, res proxy.Result) {
	if res.Whole != (e.kind == proxy.KindWhole) {
		panic("of the kind " + string(e.kind))
	}
	e.f(r, res)
}

// onHeal is told of histories that were healed.
type onHeal func(*http.Request, int)

func (f onHeal) Request(r *http.Request, read rewrite.Healed) { f(r, read.Markers) }

func (onHeal) Begin(*http.Request, proxy.Begun) proxy.AnswerObserver { return deaf{} }
