package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A variant is a sidecar with options of its own, or none at all.
type variant struct {
	name    string
	options sidecar.Options
}

// direct is the variant without a sidecar.
const direct = "direct"

// byDefault is the variant that most users run.
const byDefault = "default"

// The variants that speak in every silence.
const (
	keepaliveChunk   = "keepalive chunk"
	keepaliveComment = "keepalive comment"
)

// quick makes the sidecar speak in every silence worth the name.
var quick = sidecar.Options{"keepalive": "50ms"}

var variants = []variant{
	{byDefault, nil},
	{"unnamed", sidecar.Options{"progress": "unnamed"}},
	{"comment", sidecar.Options{"progress": "comment"}},
	{"off", sidecar.Options{"progress": "off"}},
	{"plain", sidecar.Options{"cards": false, "status_line": false}},
	{keepaliveChunk, quick},
	{keepaliveComment, quick.With(sidecar.Options{"keepalive_form": "comment"})},
}

// A lab is what clients are tried against: one upstream, and a sidecar with a
// site for every variant.
type lab struct {
	book     *playbook
	bases    map[string]string // of variants
	dead     map[string]string // those whose upstream refuses connections
	no, lost strict.APIError   // what these say, and what is said of an answer that is lost
	asked    atomic.Int64
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{book: newPlaybook(t), bases: map[string]string{}, dead: map[string]string{}}
	up := upstream.New(t, l.book.play)
	nobody := harness.FreePort(t)
	l.bases[direct], l.dead[direct] = "http://"+up.Addr, "http://"+nobody
	var c sidecar.Config
	for _, v := range variants {
		// One upstream plays all generations here: what the sidecar remembers of it must not decide.
		s := sidecar.Site{Listen: harness.FreePort(t), Upstream: up.Addr, Options: v.options.With(sidecar.Options{"zero_usage": "error"})}
		l.bases[v.name] = "http://" + s.Listen
		c.Sites = append(c.Sites, s)
	}
	refused := sidecar.Site{Listen: harness.FreePort(t), Upstream: nobody}
	l.dead[byDefault] = "http://" + refused.Listen
	c.Sites = append(c.Sites, refused)
	sidecar.Run(t, t.TempDir(), c)
	l.no = client.CheckJSON(t, asks(t, l.dead[byDefault], "nobody listens"), http.StatusBadGateway, nobody)
	l.lost = client.CheckJSON(t, asks(t, l.bases[byDefault], playLost+" - 0"), http.StatusBadGateway, up.Addr)
	if !strings.Contains(l.lost.Message, "may be running") {
		t.Errorf("an answer that is lost: %+v", l.lost)
	}
	for _, v := range variants {
		if a := asks(t, l.bases[v.name], playWhole+" "+modern+"/plain 0").Answer(); a.Finish != "stop" || a.Err != nil {
			t.Fatalf("%s: %+v", v.name, a.Err)
		}
	}
	return l
}

// asks sends a prompt as a strict client does.
func asks(t testing.TB, base, prompt string) *client.Reply {
	t.Helper()
	return client.New(t, base).Send(http.MethodPost, "/v1/chat/completions", strings.NewReader(chatOf(prompt)))
}

// errorOf is the error that is on the wire of an answer.
func (l *lab) errorOf(t testing.TB, variant, kind, rec string) strict.APIError {
	t.Helper()
	if kind == playReset {
		kind = playTorn // to the client they are alike
	}
	a := asks(t, l.bases[variant], kind+" "+rec+" 0").Answer()
	if a.Err == nil {
		t.Fatalf("no error comes with %s of %s of %s", kind, rec, variant)
	}
	return *a.Err
}

// A bench is one client at one variant.
type bench struct {
	lab     *lab
	d       *driver
	variant string
	tap     *tap
}

func (l *lab) bench(t testing.TB, d *driver, variant string) *bench {
	return &bench{lab: l, d: d, variant: variant, tap: newTap(t, l.bases[variant])}
}

// run shows one answer to the client. What came late is tried again: a busy
// machine is late once, a client that waits is late each time.
func (b *bench) run(t testing.TB, s scenario, kind, generation, rec string) outcome {
	t.Helper()
	var o outcome
	for range 3 {
		var late time.Duration
		if o, late = b.once(t, s, kind, generation, rec); late <= soon || o.seen.hung {
			return o
		}
		o.ok, o.why = false, fmt.Sprintf("%s late: %s", late, o.why)
	}
	o.cell += ", late"
	return o
}

// once also says how long after the end of the answer the program knew.
func (b *bench) once(t testing.TB, s scenario, kind, generation, rec string) (outcome, time.Duration) {
	t.Helper()
	name := generation + "/" + rec
	want := expect(t, generation, rec)
	want.direct = b.variant == direct
	if !s.good && !want.direct {
		want.err = b.lab.errorOf(t, b.variant, kind, name)
	}
	nonce, take := b.lab.next(b.tap)
	before := b.tap.posts()
	got := b.d.ask(b.tap.url, kind+" "+name+" "+nonce, harness.Patience)
	o := s.judge(got, want, kind)
	if n := b.tap.posts() - before; n != 1 {
		o.ok, o.cell = false, fmt.Sprintf("%s, %d requests", o.cell, n)
	}
	if end := take.ended.Load(); end != nil {
		return o, got.at.Sub(*end)
	}
	return o, 0 // it gave up before the end
}

// A trouble is what became of a request that gets no answer: its upstream refuses connections, or
// reads it and closes the connection.
type trouble struct {
	outcome
	requests int // of the client, or those that the agent has got
}

// refuse asks an upstream that is not there, once more if what came was late.
func (l *lab) refuse(t testing.TB, d *driver, variant string) trouble {
	r, late := l.refuseOnce(t, d, variant)
	if late > soon {
		r, late = l.refuseOnce(t, d, variant)
	}
	if late > soon {
		r.ok, r.cell = false, r.cell+", late"
		r.why += late.String()
	}
	return r
}

// refuseOnce also says how long after the last 502 the program knew.
func (l *lab) refuseOnce(t testing.TB, d *driver, variant string) (trouble, time.Duration) {
	p := newTap(t, l.dead[variant])
	base, want := p.url, expected{err: l.no, direct: variant == direct}
	if want.direct {
		base = l.dead[variant] // not even a tap is there
	}
	got := d.ask(base, "nobody listens", refusedPatience)
	r := trouble{scenario{}.judge(got, want, playWhole), p.posts()}
	if want.direct || got.hung {
		return r, 0
	}
	_, last := p.answered()
	return r, got.at.Sub(last)
}

// The ways to ask for an answer.
const (
	streamed    = "streamed"
	notStreamed = "not streamed"
)

// lose has a client ask, in a way, an agent that reads its request and closes the connection,
// until it gives up.
func (l *lab) lose(d *driver, way string) trouble {
	nonce, take := l.next(nil)
	ask := d.ask
	if way == notStreamed {
		ask = d.askWhole
	}
	got := ask(l.bases[byDefault], playLost+" - "+nonce, refusedPatience)
	return trouble{scenario{}.judge(got, expected{err: l.lost}, playWhole), int(take.asked.Load())}
}

// refusedPatience bounds a refused request. LangChain.js tries six times more, and
// waits for up to 126 s between them.
const refusedPatience = 8 * time.Minute

// A playbook is an upstream that is told by the user's message what to answer,
// because that is all that every client sends as its program wants it: "kind
// recording nonce", such as "whole g0-v0.8.0/plain 17".
type playbook struct {
	recs  map[string]hermes.Recording
	takes sync.Map // *take, by nonce
}

// A take is the answer with a nonce: on which way it goes, how often it was asked for, and when it
// came to its end or broke off.
type take struct {
	way   *tap
	asked atomic.Int64
	ended atomic.Pointer[time.Time]
}

// next returns a nonce for an answer that goes on a way, nil for one that is not recorded.
func (l *lab) next(way *tap) (nonce string, t *take) {
	nonce, t = fmt.Sprint(l.asked.Add(1)), &take{way: way}
	l.book.takes.Store(nonce, t)
	return nonce, t
}

// The kinds of answers.
const (
	playWhole = "whole" // the recording, to its end
	playTorn  = "torn"  // half of it, and FIN inside a chunk
	playReset = "reset" // half of it, and RST
	playEarly = "early" // whole, but silent before the first frame
	playSlow  = "slow"  // whole, but silent in the middle
	playLost  = "lost"  // none: the request is read, and the connection closed
	playAsked = "asked" // whole, with what the newest Hermes says of its state in the middle
)

// asked are the events of a Hermes that waits for a person, with the members and in the
// order of its source. No released version sends them yet.
var asked = [][]byte{
	[]byte("event: hermes.status\n" + `data: {"kind": "lifecycle", "text": "\u23f3 Retrying in 2.0s (attempt 1/3)..."}` + "\n\n"),
	[]byte("event: approval.request\n" + `data: {"command": "rm -rf x", "pattern_key": "recursive delete", "pattern_keys": ["recursive delete"], "description": "recursive delete", "allow_permanent": true, "allow_session": true, "request_id": "0f3c9d5be1a84c6e9b7d2f4a6c8e0b1d", "event": "approval.request", "run_id": "chatcmpl-9f2c4e6a8b0d1f3a5c7e9b1d3f5a7", "timestamp": 1795164799.1, "session_id": "api-fa20b00e3b9c6a4c", "choices": ["once", "session", "always", "deny"]}` + "\n\n"),
}

func newPlaybook(t testing.TB) *playbook {
	p := &playbook{recs: map[string]hermes.Recording{}}
	for _, r := range hermes.Recordings(t, hermes.Chats) {
		p.recs[r.String()] = r
	}
	return p
}

// play is the upstream's script.
func (p *playbook) play(x *upstream.Exchange) {
	kind, rec, nonce := p.read(x.Body)
	stored, _ := p.takes.LoadOrStore(nonce, &take{})
	take := stored.(*take)
	take.asked.Add(1)
	if kind == playLost {
		x.Fin()
		return
	}
	r, ok := p.recs[rec]
	if !ok {
		upstream.AsJSON("404 Not Found", `{"error":{"message":"no such recording"}}`)(x)
		return
	}
	frames := upstream.ByFrame(r.Body)
	if kind == playAsked {
		frames = slices.Insert(frames, len(frames)/2, asked...)
	}
	way, before := take.way, 0
	if way != nil {
		before, _ = way.answered()
	}
	ends := func() {
		now := time.Now()
		take.ended.Store(&now)
	}
	if kind == playWhole || kind == playEarly || kind == playSlow || kind == playAsked {
		x.Raw(r.Header)
		for i, f := range frames {
			if kind == playEarly && i == 0 || kind == playSlow && i == len(frames)/2 {
				way.await(x, before+i+3) // header, frames, and two keepalives
			}
			if i == len(frames)-3 { // the finish chunk, [DONE], and nothing
				ends()
			}
			x.Chunk(f)
		}
		x.End()
		return
	}
	half := len(frames) / 2
	x.Raw(r.Header)
	for _, f := range frames[:half] {
		x.Chunk(f)
	}
	part := frames[half][:len(frames[half])/2]
	if kind == playTorn {
		ends()
		x.Torn(part)
		return
	}
	x.Chunk(part)
	way.await(x, before+1) // a reset may overtake what was sent before it
	ends()
	x.Reset()
}

// read finds the last user's message in a request.
func (p *playbook) read(body []byte) (kind, rec, nonce string) {
	var req struct {
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(body, &req) != nil || len(req.Messages) == 0 {
		return "", "", ""
	}
	words := append(strings.Fields(textOf(req.Messages[len(req.Messages)-1].Content)), "", "", "")
	return words[0], words[1], words[2]
}

// A tap is a way to a server, and knows what has gone through it. Each client has its own, so that attempts
// can be counted where nothing else sees them.
type tap struct {
	url string

	mu          sync.Mutex
	open        []net.Conn // of the client
	asked, said bytes.Buffer
	reads       int       // of bytes towards the client: at most one for each write of the server's
	last        time.Time // when that was
}

// newTap starts a tap in front of a base URL.
func newTap(t testing.TB, base string) *tap {
	t.Helper()
	p := new(tap)
	p.url = relay(t, base, func(down *net.TCPConn, dial func() (net.Conn, error)) {
		up, err := dial()
		if err != nil {
			down.SetLinger(0) // as refused as it can be
			p.sawRequest([]byte(post))
			return
		}
		defer up.Close()
		p.mu.Lock()
		p.open = append(p.open, down)
		p.mu.Unlock()
		var both sync.WaitGroup
		both.Go(func() { pass(up, down, p.sawRequest) })
		both.Go(func() { pass(down, up, p.sawAnswer) })
		both.Wait()
	})
	return p
}

// relay hands each connection to an address of its own over to serve, which may connect to the base
// URL with dial, and returns that address.
func relay(t testing.TB, base string, serve func(down *net.TCPConn, dial func() (net.Conn, error))) (url string) {
	t.Helper()
	return "http://" + harness.Listen(t, func(over context.Context, down net.Conn) {
		serve(down.(*net.TCPConn), func() (net.Conn, error) {
			up, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err == nil {
				context.AfterFunc(over, func() { up.Close() })
			}
			return up, err
		})
	}).Addr
}

// pass copies one direction, and hands on how it ended.
func pass(to, from net.Conn, saw func([]byte)) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			saw(b[:n])
			to.Write(b[:n])
		}
		if err == io.EOF {
			to.(*net.TCPConn).CloseWrite()
			return
		}
		if err != nil {
			to.(*net.TCPConn).SetLinger(0)
			to.Close()
			from.Close()
			return
		}
	}
}

// post begins every request. Clients send it in one write.
const post = "POST /v1/chat/completions"

func (p *tap) sawRequest(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked.Write(b)
}

func (p *tap) sawAnswer(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said.Write(b)
	p.reads++
	p.last = time.Now()
}

// posts returns how many requests have come.
func (p *tap) posts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Count(p.asked.Bytes(), []byte(post))
}

// answered returns how often bytes have gone to the client, and when the last have.
func (p *tap) answered() (reads int, last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads, p.last
}

// await returns when bytes have gone to the client n times, or when the sidecar has left.
func (p *tap) await(x *upstream.Exchange, n int) {
	for reads := 0; reads < n; reads, _ = p.answered() {
		select {
		case <-x.Gone:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// says reports whether an answer has begun so and has a text.
func (p *tap) says(status, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.HasPrefix(p.said.Bytes(), []byte("HTTP/1.1 "+status+" ")) && bytes.Contains(p.said.Bytes(), []byte(text))
}

// cut ends all connections that there are.
func (p *tap) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		c.Close()
	}
	p.open = nil
}
