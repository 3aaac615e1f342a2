package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const comment = ": comment\n\n"

// TestTimelines: the deadlines and keepalives of an exchange.
func TestTimelines(t *testing.T) {
	for _, c := range []struct{ name, limits, does, answers string }{
		{"no deadline", "", "+1000h header +1000h role +1000h stop +1000h running", "role stop"},
		{
			"the longest deadlines", "first=2562047h idle=2562047h stall=2562047h grace=2562047h keepalive=10s",
			"+1h header role +10s! stop +1h running", "role beat stop",
		},
		{
			"the earliest: first byte", "first=1m idle=1h stall=1h grace=1h keepalive=1h", "header +1m!",
			"504:timeout",
		},
		{
			"the earliest: idle", "first=1h idle=1m stall=1h grace=1h keepalive=1h", "header +1m!",
			"504:timeout",
		},
		{
			"the earliest: stall", "first=1h idle=1h stall=1m grace=1h keepalive=1h", "header +1m!",
			"504:timeout",
		},
		{"first byte", "first=30s", "+30s!", "504:timeout"},
		{"first byte: of the request, not of the header", "first=30s", "+20s header +10s!", "504:timeout"},
		{"first byte: a frame is one", "first=30s", "header role +1h running", "role"},
		{"first byte: part of one is", "first=30s", "header part +1h running", ""},
		{"first byte: a comment is", "first=30s", "header comment +1h running", "comment"},
		{
			"first byte: a keepalive is not", "first=25s keepalive=10s", "header +10s! +10s! +5s! stopped",
			"keepalive keepalive ...",
		},
		{"idle: no header", "idle=1m", "+1m!", "504:timeout"},
		{"idle: the header is a byte", "idle=1m", "+50s header +1m!", "504:timeout"},
		{"idle: nothing", "idle=1m", "header role +1m!", "role error:timeout"},
		{"idle: frames", "idle=1m", "header role +40s text +40s text +1m!", "role text text partial:timeout"},
		{
			"idle: comments", "idle=1m", "header role +40s comment +40s comment +1m!",
			"role comment comment error:timeout",
		},
		{"idle: part of a frame", "idle=1m", "header role +40s part +40s part +1m!", "role error:timeout"},
		{
			"stall: frames", "stall=1m", "header +59s text +59s text +59s text +1m!",
			"text text text partial:timeout",
		},
		{
			"stall: comments", "idle=30s stall=1m", "header role +20s comment +20s comment +20s!",
			"role comment comment error:timeout",
		},
		{
			"stall: blank lines", "idle=30s stall=1m", "header role +20s line +20s line +20s!",
			"role line line error:timeout",
		},
		{
			"stall: part of a frame", "idle=30s stall=1m", "header role +20s part +20s part +20s!",
			"role error:timeout",
		},
		{"stall: no header", "stall=1m", "+1m!", "504:timeout"},
		{"stall: the header is no frame", "stall=1m", "+30s header +30s!", "504:timeout"},
		{"stall: a comment is none", "stall=1m", "+30s header hello +30s!", "504:timeout"},
		{"grace: after [DONE]", "grace=5s", "header role stop done +5s! stopped", "role stop done"},
		{
			"grace: shorter than the keepalive", "idle=1m keepalive=10s grace=5s",
			"header +4s role +10s! +1s stop +5s! stopped", "role beat stop done",
		},
		{"keepalive: not before the header", "keepalive=10s", "+1h header +10s! running", "keepalive"},
		{
			"keepalive: from the last byte to the client", "keepalive=10s",
			"header +6s role +10s! +4s half +6s! +4s rest +10s! running", "role beat beat text beat",
		},
		{
			"keepalive: does not hide idle", "keepalive=10s idle=25s", "header role +10s! +10s! +5s!",
			"role beat beat error:timeout",
		},
		{
			"keepalive: does not hide stall", "keepalive=10s stall=25s", "header role +10s! +10s! +5s!",
			"role beat beat error:timeout",
		},
		{
			"keepalive: not after the finish", "keepalive=10s", "header role stop +1m done +1m running",
			"role stop done",
		},
		{
			"no deadline below zero", "first=-1s idle=-1s stall=-1s grace=-1s keepalive=-1s",
			"+1h header +1h role +1h stop +1h running", "role stop",
		},
		{"silence before a keepalive", "idle=10s keepalive=10s", "header role +10s!", "role error:timeout"},
		{"ends: gives up", "first=30s", "+30s! stopped waits", "504:timeout"},
		{"ends: gives up silently", "first=30s", "+30s! stopped end", "504:timeout"},
		{"ends: aborts", "first=30s", "+30s! stopped abort", "504:timeout"},
		{"ends: answers, too late", "first=30s", "+30s! stopped 500 end", "504:timeout"},
		{"ends: has an answer after all", "first=30s", "+30s! stopped header abort", "504:timeout"},
		{"ends: a stream that aborts", "idle=1m", "header role +1m! stopped abort", "role error:timeout"},
		{"ends: a stream with an error", "idle=1m", "header role +1m! stopped error", "role error:timeout"},
		{"ends: a stream cleanly", "idle=1m", "header role +1m! stopped end", "role error:timeout"},
		{
			"grace: bytes begin it anew", "grace=5s idle=2s stall=2s keepalive=1s",
			"header role text +1s! stop +4s comment +4s comment +4s comment +5s! stopped abort",
			"role text beat stop comment comment comment done",
		},
	} {
		s := scene{name: c.name, limits: c.limits, does: c.does, answers: c.answers}
		s.run(t)
	}
	scene{
		name: "ends: panics", limits: "idle=1m", does: "header role +1m! panic", answers: "role error:timeout", goesOn: "panic",
	}.run(t)
}

func TestKeepaliveForms(t *testing.T) {
	const byDefault = rewrite.KeepaliveForm("")
	for _, c := range []struct {
		form          rewrite.KeepaliveForm
		does, answers string
	}{
		{byDefault, "header", "keepalive keepalive"},
		{byDefault, "header role", "role beat beat"},
		{byDefault, "header comment", "comment keepalive keepalive"},
		{rewrite.KeepaliveChunk, "header role", "role beat beat"},
		{rewrite.KeepaliveChunk, "header", "keepalive keepalive"},
		{rewrite.KeepaliveChunk, "header role half", "role beat beat"},
		{rewrite.KeepaliveChunk, "header role held", "role beat beat"},
		{rewrite.KeepaliveChunk, "header role tool", "role tool-starts beat beat"},
		{rewrite.KeepaliveChunk, "header array", "array keepalive keepalive"},
		{rewrite.KeepaliveComment, "header role", "role keepalive keepalive"},
		{rewrite.KeepaliveComment, "header role tool", "role tool-starts keepalive keepalive"},
	} {
		scene{
			name: string(c.form) + " " + c.does, limits: "keepalive=10s", does: c.does + " +10s! +10s!", answers: c.answers,
			set: []setting{option(func(o *proxy.Options) { o.Rewrite.KeepaliveForm = c.form })},
		}.run(t)
	}
}

func TestKeepaliveThatTheClientDoesNotTakeCancelsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.Keepalive = 10 * time.Second }))
		x.Stream()
		x.Write(role)
		x.Rec.OnWrite = func([]byte) (int, error) { return 0, errTest }
		advance(10 * time.Second)
		if cause := context.Cause(x.Up.Context()); cause != errTest {
			t.Errorf("upstream's request ended with the cause %v, want the inner writer's error", cause)
		}
		x.Abort().WantEnd(t, http.ErrAbortHandler, nil)
	})
}

// slowly has the client take d for a write of s.
func (x *exchange) slowly(s string, d time.Duration) {
	x.T.Helper()
	x.Rec.OnWrite = func(b []byte) (int, error) {
		time.Sleep(d)
		return len(b), nil
	}
	x.Write(s)
	x.Rec.OnWrite = nil
	synctest.Wait()
}

// TestSlowClients: the time that a client takes for a write is not upstream's silence, and
// needs no keepalive. None stands within a frame that leaves in parts.
func TestSlowClients(t *testing.T) {
	for _, limit := range []string{"first=1m", "idle=1m", "stall=1m", "grace=1m"} {
		s := scene{name: limit, limits: limit, does: "header role slowly:text +59s running", answers: "role text"}
		if limit == "grace=1m" {
			s.does, s.answers = "header role text slowly:stop +59s running", "role text stop"
		}
		s.run(t)
	}
	scene{name: "keepalive", limits: "keepalive=1m", does: "header slowly:role +1m!", answers: "role beat"}.run(t)
	scene{
		name: "in parts", limits: "keepalive=10s", set: []setting{option(func(o *proxy.Options) { o.Rewrite.MaxFrame = 512 })},
		does: "header role long-1 +1m long-2 +1m long-3 +1m line +10s!", answers: "role long-1 long-2 long-3 line beat",
	}.runWith(t, map[string]string{"long-1": `data: {"x":"` + strings.Repeat("x", 600), "long-2": strings.Repeat("y", 600), "long-3": `"}` + "\n"})
}

// asking gives the request a body.
func asking(body string) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
}

// slowly gives the request a body for which the client takes its time: meanwhile
// runs once it is being read.
func slowly(body string, meanwhile func()) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) {
		begun, rest := false, strings.NewReader(body)
		r.ContentLength = int64(len(body))
		r.Body = io.NopCloser(readerFunc(func(b []byte) (int, error) {
			if !begun {
				begun = true
				meanwhile()
			}
			return rest.Read(b[:min(len(b), 10)])
		}))
	}
}

func timeouts(d time.Duration) setting {
	return option(func(o *proxy.Options) { o.FirstByteTimeout, o.IdleTimeout = d, d })
}

// deadlines are the timeouts that count from the request on, one at a time.
var deadlines = []string{"first=1m", "idle=1m", "stall=1m"}

// Timeouts and the drain are about streams: an answer that is none may take its
// time.
func TestAnswersThatAreNoStreamsHaveNoDeadline(t *testing.T) {
	whole := strings.Replace(polluted, "true", "false", 1)
	for _, body := range []string{`{}`, `{"stream":false}`, `{"messages":[],"stream":null}`, whole} {
		scene{
			name: body, limits: "first=1m idle=1m stall=1m drain=1m", set: []setting{asking(body)},
			does: "+24h shutdown +24h json {} end", answers: "{}", outcome: "-",
		}.run(t)
	}
}

// Where the body does not say, or was not read, the answer may be a stream.
func TestAnswersThatMayBeStreamsHaveDeadlines(t *testing.T) {
	keep := option(func(o *proxy.Options) { o.History = proxy.HistoryKeep })
	small := option(func(o *proxy.Options) { o.MaxRequest = 5 })
	none := option(func(*proxy.Options) {})
	for name, c := range map[string]struct {
		body string
		set  setting
	}{
		"a stream": {`{"stream":true}`, none}, "a number": {`{"stream":1}`, none}, "no JSON": {`stream=false`, none},
		"cut off": {`{"stream":false`, none}, "nothing": {``, none}, "history keep": {`{"stream":false}`, keep},
		"too large": {`{"stream":false}`, small}, "compressed": {`{"stream":false}`, header("Content-Encoding", "gzip")},
	} {
		set := []setting{asking(c.body), c.set}
		for _, limit := range deadlines {
			scene{name: name, limits: limit, set: set, does: "+1m! end", answers: "504:timeout"}.run(t)
		}
		scene{name: name, limits: "drain=1m", set: set, does: "shutdown +1m! end", answers: "502:shutdown"}.run(t)
	}
}

// A stream that the request does not ask for is one all the same, from its header on.
func TestStreamsThatAreNotAskedForHaveDeadlines(t *testing.T) {
	set := []setting{asking(`{}`)}
	for _, limit := range deadlines {
		scene{name: limit, limits: limit, set: set, does: "+1h header +1m! end", answers: "504:timeout"}.run(t)
	}
	scene{
		name: "drain", limits: "drain=1m", set: set,
		does: "shutdown +1m header stopped end", answers: "502:shutdown",
	}.run(t)
}

func TestShutdownWhileTheClientSends(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		passed time.Duration // of the drain_timeout while the client sends
		asked  bool          // whether upstream is asked
	}{
		"a stream, over":         {polluted, time.Minute, false},
		"a stream, in time":      {polluted, time.Minute - 1, true},
		"not a stream, over":     {`{}`, time.Hour, true},
		"not a stream, in time":  {`{}`, time.Second, true},
		"cut off, over":          {polluted[:30], time.Minute, false},
		"no object at all, over": {`[`, time.Minute, false},
	} {
		bubble(t, name, func(t *testing.T) {
			streams, rec, asked := new(proxy.Streams), newRecorder(t), false
			o := proxy.Options{Streams: streams, Limits: proxy.Limits{DrainTimeout: time.Minute}}
			r := httptest.NewRequest(http.MethodPost, chatPath, nil)
			slowly(c.body, func() {
				equal(t, streams.Open(), 1, "requests under way")
				streams.Shutdown(0)
				advance(c.passed)
			})(&o, r, rec)
			err := proxy.New(o).Serve(rec, r, func(w http.ResponseWriter, _ *http.Request) error {
				asked = true
				advance(time.Hour)
				_, _ = io.WriteString(w, "{}")
				return nil
			})
			equal(t, err, nil, "the error")
			equal(t, asked, c.asked, "upstream is asked")
			if c.body == `{}` {
				equal(t, rec.Body.String(), "{}", "what the client was sent")
			} else {
				equal(t, rec.Status, http.StatusBadGateway, "status")
				proxytest.CheckAnswer(t, rec.Sent, rec.Body.Bytes(), "shutting_down", c.asked)
			}
			equal(t, streams.Open(), 0, "requests that are left")
		})
	}
}

// unread are settings with which a body goes on while it comes.
var unread = map[string]setting{
	"history keep": option(func(o *proxy.Options) { o.History = proxy.HistoryKeep }),
	"too large":    option(func(o *proxy.Options) { o.MaxRequest = 5 }),
	"incremental":  header("Incremental", "?1"),
	"compressed":   header("Content-Encoding", "gzip"),
	"no JSON":      option(func(*proxy.Options) {}),
}

// sending gives the request a body each of whose portions takes the client what
// meanwhile does.
func sending(portions int, meanwhile func()) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) {
		first := true
		r.ContentLength = int64(portions)
		r.Body = io.NopCloser(readerFunc(func(b []byte) (int, error) {
			if first {
				first = false // where the beginning is looked at
			} else {
				meanwhile()
			}
			if portions--; portions < 0 {
				return 0, io.EOF
			}
			b[0] = '['
			return 1, nil
		}))
	}
}

// The time that a client takes to send its request is not upstream's silence, whether the body is read before
// upstream is asked or goes on while it comes. The time that upstream takes to read it is, and so is that of an
// answer that has begun.
func TestTimeoutsDoNotCountTheClientsUpload(t *testing.T) {
	for _, limit := range deadlines {
		upload := slowly(polluted, func() { advance(time.Hour) })
		scene{name: limit, limits: limit, set: []setting{upload}, does: "+1m! end", answers: "504:timeout"}.run(t)
		for name, set := range unread {
			scene{
				name: limit + ", " + name, limits: limit + " keepalive=1s", set: []setting{sending(100, func() { advance(10 * time.Minute) }), set},
				does: "reads-all +1m! end", answers: "504:timeout",
			}.run(t)
			scene{
				name: limit + ", " + name + ", upstream is slow", limits: limit, set: []setting{sending(100, func() {}), set},
				does: "reads +59s reads +59s reads +1m! end", answers: "504:timeout",
			}.run(t)
		}
	}
	scene{
		name: "an answer that has begun", limits: "first=1m idle=1m", set: []setting{sending(100, func() {}), unread["history keep"]},
		does: "header role +30s reads +30s! end", answers: "role error:timeout",
	}.run(t)
}

// The request is read on while the client does not read its answer.
func TestUploadsDoNotWaitForTheAnswer(t *testing.T) {
	blocked, goOn := make(chan bool), make(chan bool)
	x := begin(t, timeouts(time.Minute), sending(100, func() {}), unread["history keep"],
		func(_ *proxy.Options, _ *http.Request, rec *recorder) {
			rec.OnWrite = func(b []byte) (int, error) {
				close(blocked)
				<-goOn
				return len(b), nil
			}
		})
	x.Stream()
	x.Start(func() { _, _ = io.WriteString(x.W, role) })
	<-blocked
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(x.Up.Body)
		read <- err
	}()
	if err := <-read; err != nil {
		t.Error(err)
	}
	close(goOn)
	<-x.Ack
}

// Without a deadline that it could move, a body stays what it is.
func TestBodiesThatAreNotFollowed(t *testing.T) {
	for name, sets := range map[string][]setting{
		"no deadline": {sending(9, func() {})}, "no chat": {timeouts(1), path(otherPath), sending(9, func() {})},
	} {
		x := begin(t, append(sets, unread["history keep"])...)
		equal(t, fmt.Sprintf("%T", x.Up.Body), fmt.Sprintf("%T", io.NopCloser(readerFunc(nil))), name+": the type of the body")
	}
}

// The values of the handler's header are its own as well: the header of a stream is the
// one that it had when it was written.
func TestValuesOfTheHeaderAreTheHandlers(t *testing.T) {
	x := begin(t)
	x.Stream("X-A", "before")
	x.Do(func() { x.W.Header()["X-A"][0] = "after" })
	x.Write(role)
	equal(t, x.Rec.Sent.Get("X-A"), "before", "X-A")
}
