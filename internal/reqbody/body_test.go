package reqbody

import (
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const (
	polluted = `{"stream":false,"messages":[{"role":"assistant","content":"Let me look.\n` + "`💻 ls`" + `\n\n\nDone."}]}`
	healed   = `{"stream":false,"messages":[{"role":"assistant","content":"Let me look.\n\nDone."}]}`
)

var errTest = errors.New("some error")

// prepared returns the client's request with the body, what the next handler gets,
// and what becomes of the body by the plan.
func prepared(body io.Reader, length int64, plan Plan) (r, up *http.Request, b *Body, h rewrite.Healed) {
	r = httptest.NewRequest(http.MethodPost, "/", body)
	r.ContentLength = length
	up = r.WithContext(r.Context())
	up.Header = r.Header.Clone()
	b = new(Body)
	h = b.Prepare(r, up, plan)
	return r, up, b, h
}

func all(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func TestPrepare(t *testing.T) {
	n := int64(len(polluted))
	for _, c := range []struct {
		name   string
		body   string
		length int64
		plan   Plan
		want   string // what upstream gets
		asked  rewrite.AnswerForm
	}{
		{"healed", polluted, n, Plan{Heal: true, Limit: n}, healed, rewrite.AnswerWhole},
		{"of unknown length", polluted, -1, Plan{Heal: true, Limit: n}, healed, rewrite.AnswerWhole},
		{"of unknown length, without a limit", polluted, -1, Plan{Heal: true, Limit: math.MaxInt64}, healed, rewrite.AnswerWhole},
		{"clean", healed, int64(len(healed)), Plan{Heal: true, Limit: n}, healed, rewrite.AnswerWhole},
		{"not to be read", polluted, n, Plan{Limit: n}, polluted, rewrite.AnswerUnknown},
		{"too large", polluted, n, Plan{Heal: true, Limit: n - 1}, polluted, rewrite.AnswerUnknown},
		{"much too large", polluted, n, Plan{Heal: true, Limit: 9}, polluted, rewrite.AnswerUnknown},
		{"longer than announced", polluted, n - 1, Plan{Heal: true, Limit: n}, polluted, rewrite.AnswerUnknown},
		{"no object", " [" + polluted, n + 2, Plan{Heal: true, Limit: 2 * n}, " [" + polluted, rewrite.AnswerUnknown},
	} {
		for form, reader := range map[string]io.Reader{
			"": strings.NewReader(c.body), ", byte by byte": iotest.OneByteReader(strings.NewReader(c.body)),
			", its end with its bytes": iotest.DataErrReader(strings.NewReader(c.body)),
		} {
			r, up, b, h := prepared(reader, c.length, c.plan)
			if got := all(t, up.Body); got != c.want || h.Form != c.asked {
				t.Errorf("%s%s: upstream gets %q, asked %v", c.name, form, got, h.Form)
			}
			if length := int64(len(c.want)); c.want == healed && c.length >= 0 && up.ContentLength != length || c.want != healed && up.ContentLength != c.length {
				t.Errorf("%s%s: ContentLength %d", c.name, form, up.ContentLength)
			}
			if r.ContentLength != c.length || b.Err() != nil {
				t.Errorf("%s%s: the client's ContentLength %d, error %v", c.name, form, r.ContentLength, b.Err())
			}
		}
	}
}

// knows is a Memory that knows a tool of every answer.
type knows struct{}

func (knows) Empty() bool                              { return false }
func (knows) Remember(rewrite.Turn, []rewrite.ToolRun) {}
func (knows) Recall(rewrite.Turn) []rewrite.ToolRun {
	return []rewrite.ToolRun{{Name: "terminal", Ended: "completed"}}
}

// TestRecordsStayWithinTheLimit: a body that upstream would take stays one, and its answer is remembered.
func TestRecordsStayWithinTheLimit(t *testing.T) {
	const body = `{"stream":true,"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"a\n` + "`💻 ls`" + `"},{"role":"user","content":"v"}]}`
	plan := Plan{Heal: true, Limit: math.MaxInt64, Memory: knows{}}
	_, up, _, h := prepared(strings.NewReader(body), int64(len(body)), plan)
	grown := all(t, up.Body)
	if h.FromMemory != 1 || len(grown) <= len(body) {
		t.Fatalf("no record in %s", grown)
	}
	for over, want := range map[int]string{0: grown, 1: strings.Replace(body, "\\n`💻 ls`", "", 1)} {
		plan.Limit = int64(len(grown) - over)
		_, up, _, limited := prepared(strings.NewReader(body), int64(len(body)), plan)
		if got := all(t, up.Body); got != want || up.ContentLength != int64(len(want)) {
			t.Errorf("%d bytes over the limit: %s", over, got)
		}
		if limited.Recalled() != 1-over || limited.Turn != h.Turn || limited.Markers != 1 {
			t.Errorf("%d bytes over the limit: %+v", over, limited)
		}
	}
}

// rest returns what r still gives, and its error.
func rest(r io.Reader) string {
	b, err := io.ReadAll(r)
	if err != nil {
		return string(b) + "|" + err.Error()
	}
	return string(b)
}

func TestGiveBack(t *testing.T) {
	plan := Plan{Heal: true, Limit: 1000}
	const tooLarge, closed = "|http: request body too large", "|http: invalid Read on closed Body"
	limit := func(up *http.Request) { up.Body = http.MaxBytesReader(nil, up.Body, 20) }
	for _, c := range []struct {
		name string
		plan Plan
		next func(up *http.Request)
		want string // what the client's request gives after it
		up   string // and then the next handler's
	}{
		{"not read", plan, func(*http.Request) {}, polluted, healed},
		{"read", plan, func(up *http.Request) { _, _ = io.ReadAll(up.Body) }, "", ""},
		{"wrapped", plan, func(up *http.Request) { up.Body = io.NopCloser(up.Body) }, polluted, ""},
		{"wrapped, and read", plan, func(up *http.Request) { up.Body = io.NopCloser(up.Body); _, _ = up.Body.Read(make([]byte, 9)) }, healed[9:], ""},
		{"not healed", Plan{}, func(*http.Request) {}, polluted, ""},
		{"not healed, wrapped", Plan{}, func(up *http.Request) { up.Body = io.NopCloser(up.Body) }, polluted, ""},
		{"limited", plan, limit, polluted[:20] + tooLarge, tooLarge},
		{"limited, no JSON", Plan{Heal: true, Limit: 9}, limit, polluted[:20] + tooLarge, tooLarge},
		{"limited, and read", plan, func(up *http.Request) { limit(up); _, _ = io.ReadAll(up.Body) }, tooLarge, tooLarge},
		{"closed", plan, func(up *http.Request) { _, _ = up.Body.Read(make([]byte, 9)); up.Body.Close() }, closed, closed},
		{"timed, not read", Plan{Timed: true}, func(*http.Request) {}, polluted, ""},
		{"timed", Plan{Timed: true}, func(up *http.Request) { _, _ = up.Body.Read(make([]byte, 9)) }, polluted[9:], ""},
	} {
		r, up, b, _ := prepared(strings.NewReader(polluted), int64(len(polluted)), c.plan)
		c.next(up)
		b.GiveBack(r, up)
		if got := rest(r.Body); got != c.want {
			t.Errorf("%s: the client's request has %q", c.name, got)
		}
		if got := rest(up.Body); got != c.up {
			t.Errorf("%s: the next handler's has %q", c.name, got)
		}
		if r.ContentLength != int64(len(polluted)) {
			t.Errorf("%s: ContentLength %d", c.name, r.ContentLength)
		}
	}
}

// The length of a body that the next handler has replaced goes with it.
func TestGiveBackOfAnotherBody(t *testing.T) {
	for _, heal := range []bool{false, true} {
		r, up, b, _ := prepared(strings.NewReader(polluted), int64(len(polluted)), Plan{Heal: heal, Limit: 1000})
		up.Body, up.ContentLength = io.NopCloser(strings.NewReader("x")), 1
		b.GiveBack(r, up)
		if got := all(t, r.Body); got != "x" || r.ContentLength != 1 {
			t.Errorf("heal %t: %q of length %d", heal, got, r.ContentLength)
		}
	}
}

// The original is released once the answer is decided and upstream has begun to read.
func TestDecided(t *testing.T) {
	for _, readFirst := range []bool{false, true} {
		r, up, b, _ := prepared(strings.NewReader(polluted), int64(len(polluted)), Plan{Heal: true, Limit: 1000})
		steps := []func(){b.Decided, func() { _, _ = up.Body.Read(make([]byte, 1)) }}
		if readFirst {
			steps[0], steps[1] = steps[1], steps[0]
		}
		steps[0]()
		if b.original == nil {
			t.Error("released too early")
		}
		steps[1]()
		if b.original != nil {
			t.Error("not released")
		}
		if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("the client's request gives %v", err)
		}
		if got := all(t, up.Body); got != healed[1:] {
			t.Errorf("upstream gets %q", got)
		}
	}
}

func TestWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := time.Now().Add(9 * time.Second)
		var b *Body
		body := readerFunc(func([]byte) (int, error) {
			if got := b.Waited(later); !got.Equal(later) {
				t.Errorf("waited until %v while it is read", got)
			}
			time.Sleep(5 * time.Second)
			return 1, nil
		})
		_, up, b, _ := prepared(body, -1, Plan{Timed: true})
		if got := b.Waited(later); !got.IsZero() {
			t.Errorf("waited until %v before it is read", got)
		}
		_, _ = up.Body.Read(make([]byte, 1))
		if got := b.Waited(later); !got.Equal(time.Now()) {
			t.Errorf("waited until %v, want the end of the read", got)
		}
		if got := new(Body).Waited(later); !got.IsZero() {
			t.Errorf("waited until %v for nothing", got)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestEnded: it is called once, before upstream can see the end of a body that the client still sends, and
// its error is that of the body.
func TestEnded(t *testing.T) {
	n := int64(len(polluted))
	for _, c := range []struct {
		name    string
		length  int64
		plan    Plan
		pending bool
	}{
		{"not read", n, Plan{}, true},
		{"not read, of unknown length", -1, Plan{}, true},
		{"timed", n, Plan{Timed: true}, true},
		{"too large", -1, Plan{Heal: true, Limit: 9}, true},
		{"read", n, Plan{Heal: true, Limit: n}, false},
		{"read, of unknown length", -1, Plan{Heal: true, Limit: n}, false},
		{"not even begun", 0, Plan{}, false},
	} {
		for _, failure := range []error{nil, errTest} {
			calls, got := 0, 0
			c.plan.Ended = func() error {
				calls++
				if c.length >= 0 && got >= len(polluted) {
					t.Errorf("%s: upstream has all %d bytes", c.name, got)
				}
				return failure
			}
			_, up, b, _ := prepared(iotest.OneByteReader(strings.NewReader(polluted)), c.length, c.plan)
			if b.Pending() != c.pending {
				t.Errorf("%s: pending: %v", c.name, b.Pending())
			}
			var err error
			for err == nil {
				var k int
				k, err = up.Body.Read(make([]byte, 100))
				got += k
			}
			switch {
			case !c.pending && (calls > 0 || err != io.EOF):
				t.Errorf("%s: %d calls, %v", c.name, calls, err)
			case c.pending && (calls != 1 || failure == nil && err != io.EOF || failure != nil && err != failure || b.Err() != nil):
				t.Errorf("%s: %d calls, %v, %v", c.name, calls, err, b.Err())
			}
			if _, again := up.Body.Read(make([]byte, 1)); again != err || calls > 1 {
				t.Errorf("%s: then %v, %d calls", c.name, again, calls)
			}
		}
	}
	if new(Body).Pending() {
		t.Error("no body is pending")
	}
}

// TestEndIsReadTwice: a transport does that, and breaks off the answer if the second read fails. The server
// closes the client's body when the answer begins, which may be between the two.
func TestEndIsReadTwice(t *testing.T) {
	client := &endingBody{Reader: iotest.DataErrReader(strings.NewReader("[1]"))}
	r := httptest.NewRequest(http.MethodPost, "/", client)
	r.ContentLength = 3
	up := r.Clone(t.Context())
	new(Body).Prepare(r, up, Plan{Timed: true})
	got := make([]byte, 10)
	if n, err := up.Body.Read(got); string(got[:n]) != "[1]" || err != io.EOF {
		t.Fatalf("%q, %v", got[:n], err)
	}
	client.closed = true
	if n, err := up.Body.Read(got); n != 0 || err != io.EOF {
		t.Errorf("again: %d, %v", n, err)
	}
}

// endingBody is a body that its server may close.
type endingBody struct {
	io.Reader
	closed bool
}

func (c *endingBody) Read(p []byte) (int, error) {
	if c.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	return c.Reader.Read(p)
}

func (c *endingBody) Close() error { return nil }

func TestErr(t *testing.T) {
	for _, plan := range []Plan{{Heal: true, Limit: 1000}, {Timed: true}, {Heal: true, Limit: 3, Timed: true}} {
		_, up, b, _ := prepared(io.MultiReader(strings.NewReader(polluted), iotest.ErrReader(errTest)), -1, plan)
		if _, err := io.ReadAll(up.Body); !errors.Is(err, errTest) || !errors.Is(b.Err(), errTest) {
			t.Errorf("%+v: %v, %v", plan, err, b.Err())
		}
		if _, up, b, _ = prepared(strings.NewReader(polluted), -1, plan); all(t, up.Body) == "" || b.Err() != nil {
			t.Errorf("%+v: %v at the end", plan, b.Err())
		}
		_, up, b, _ = prepared(readerFunc(func([]byte) (int, error) { up.Body.Close(); return 0, errTest }), -1, Plan{Timed: true})
		if _, err := up.Body.Read(make([]byte, 1)); err == nil || b.Err() != nil {
			t.Errorf("closed while it is read: %v, %v", err, b.Err())
		}
	}
}

// Closing a reader closes the client's body, and reads no more by it.
func TestClose(t *testing.T) {
	for _, plan := range []Plan{{Heal: true, Limit: 1000}, {Heal: true, Limit: 9}, {Timed: true}} {
		closed := &closing{Reader: strings.NewReader(polluted)}
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Body, r.ContentLength = closed, -1
		up := r.WithContext(r.Context())
		new(Body).Prepare(r, up, plan)
		up.Body.Close()
		if closed.times != 1 {
			t.Errorf("%+v: closed %d times", plan, closed.times)
		}
		if n, err := up.Body.Read(make([]byte, 9)); plan.Heal && (n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose)) {
			t.Errorf("%+v: %d bytes, %v", plan, n, err)
		}
	}
}

type closing struct {
	io.Reader
	times int
}

func (c *closing) Close() error { c.times++; return nil }

// A body that cannot be compared is taken for another.
func TestSame(t *testing.T) {
	type uncomparable struct {
		io.ReadCloser
		_ []byte
	}
	if same(uncomparable{}, uncomparable{}) {
		t.Error("taken for the same")
	}
}
