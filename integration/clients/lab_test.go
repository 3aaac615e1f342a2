package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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
	{"cards", sidecar.Options{"cards": true}},
	{keepaliveChunk, quick},
	{keepaliveComment, quick.With(sidecar.Options{"keepalive_form": "comment"})},
}

// A lab is what clients are tried against: one upstream, and a sidecar with a
// site for every variant.
type lab struct {
	book  *playbook
	bases map[string]string // of variants
	dead  map[string]string // those whose upstream refuses connections
	no    strict.APIError   // what these say
	asked atomic.Int64

	mu     sync.Mutex
	errors map[string]strict.APIError // of references, by variant and prompt
}

func newLab(t testing.TB) *lab {
	t.Helper()
	l := &lab{book: newPlaybook(t), bases: map[string]string{}, dead: map[string]string{}, errors: map[string]strict.APIError{}}
	up := upstream.New(t, l.book.play)
	nobody := harness.FreePort(t)
	l.bases[direct], l.dead[direct] = "http://"+up.Addr, "http://"+nobody
	var c sidecar.Config
	for _, v := range variants {
		// One upstream plays all generations here, and whoever reports its failures
		// is believed: what is remembered of it must not decide.
		s := sidecar.Site{Listen: harness.FreePort(t), Upstream: up.Addr, Options: v.options.With(sidecar.Options{"zero_usage": "error"})}
		l.bases[v.name] = "http://" + s.Listen
		c.Sites = append(c.Sites, s)
	}
	refused := sidecar.Site{Listen: harness.FreePort(t), Upstream: nobody}
	l.dead[byDefault] = "http://" + refused.Listen
	c.Sites = append(c.Sites, refused)
	sidecar.Run(t, t.TempDir(), c)
	l.no = refusedError(t, l.dead[byDefault])
	for _, v := range variants {
		if a := l.reference(t, v.name, playWhole+" "+modern+"/plain 0"); a.Finish != "stop" || a.Err != nil {
			t.Fatalf("%s: %+v", v.name, a.Err)
		}
	}
	return l
}

// reference asks as a strict decoder does.
func (l *lab) reference(t testing.TB, variant, prompt string) *strict.Answer {
	t.Helper()
	body := fmt.Sprintf(`{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":%s}]}`, hermes.Quoted(prompt))
	res, err := http.Post(l.bases[variant]+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return strict.Decode(t, readAll(t, res.Body))
}

// errorOf is the error that is on the wire of an answer.
func (l *lab) errorOf(t testing.TB, variant, kind, rec string) strict.APIError {
	t.Helper()
	if kind == playReset {
		kind = playTorn // to the client they are alike
	}
	prompt := kind + " " + rec + " 0"
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.errors[variant+prompt]
	if !ok {
		a := l.reference(t, variant, prompt)
		if a.Err == nil {
			t.Fatalf("no error comes with %s of %s", prompt, variant)
		}
		e = *a.Err
		l.errors[variant+prompt] = e
	}
	return e
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
	nonce := fmt.Sprint(b.lab.asked.Add(1))
	b.lab.book.expect(nonce, b.tap)
	before := b.tap.attempts()
	got := b.d.ask(b.tap.url(), kind+" "+name+" "+nonce, harness.Patience)
	o := s.judge(got, want, kind)
	if n := b.tap.attempts() - before; n != 1 {
		o.ok, o.cell = false, fmt.Sprintf("%s, %d requests", o.cell, n)
	}
	if end := b.lab.book.endOf(nonce); !end.IsZero() {
		return o, got.at.Sub(end)
	}
	return o, 0 // it gave up before the end
}

// readAll reads a body to its end.
func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A refusal is what became of a request whose upstream refuses connections.
type refusal struct {
	outcome
	requests int
}

// refuse asks an upstream that is not there, once more if what came was late.
func (l *lab) refuse(t testing.TB, d *driver, variant string) refusal {
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
func (l *lab) refuseOnce(t testing.TB, d *driver, variant string) (refusal, time.Duration) {
	p := newTap(t, l.dead[variant])
	base, want := p.url(), expected{err: l.no, direct: variant == direct}
	if want.direct {
		base = l.dead[variant] // not even a tap is there
	}
	got := d.ask(base, "nobody listens", refusedPatience)
	r := refusal{scenario{}.judge(got, want, playWhole), p.attempts()}
	if want.direct || got.hung {
		return r, 0
	}
	return r, got.at.Sub(p.lastAnswer())
}

// refusedError is the error in the JSON that comes with the 502.
func refusedError(t testing.TB, base string) strict.APIError {
	t.Helper()
	res, err := http.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(client.Question))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var e struct{ Error strict.APIError }
	if body := readAll(t, res.Body); res.StatusCode != http.StatusBadGateway || json.Unmarshal([]byte(body), &e) != nil || e.Error.Message == "" {
		t.Fatalf("%s: %s", res.Status, body)
	}
	return e.Error
}

// refusedPatience bounds a refused request. LangChain.js tries six times more, and
// waits for up to 126 s between them.
const refusedPatience = 8 * time.Minute
