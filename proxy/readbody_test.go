package proxy_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// allocated returns how many bytes f allocates, the least of some runs: others
// allocate meanwhile.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// A request takes twice its size at most, whatever is removed from it: what came, and what
// leaves. Nothing of it is there any more once the answer has begun.
func TestARequestTakesTwiceItsSizeAtMost(t *testing.T) {
	const card = `{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"terminal","arguments":"{\"label\": \"ls\"}"}}]},` +
		`{"role":"tool","tool_call_id":"c","content":"completed"},`
	const marked = `{"role":"assistant","content":"` + "`💻 ls`" + `\nDone."},`
	p := proxy.New(proxy.Options{})
	for name, messages := range map[string]string{"nothing": "", "markers": strings.Repeat(marked, 200), "cards": card + card, "both": strings.Repeat(marked, 200) + card + marked} {
		for _, size := range []int{5_000_000, proxy.DefaultMaxRequest} {
			for _, chunked := range []bool{false, true} {
				text := strings.Repeat("x", size-len(messages)-200)
				body := `{"stream":true,"messages":[` + messages + `{"role":"user","content":"` + text + `"}]}`
				r := httptest.NewRequest(http.MethodPost, chatPath, nil)
				peak := &peak{from: strings.NewReader(body), chunked: chunked}
				r.Body, r.ContentLength = io.NopCloser(peak), int64(len(body))
				if chunked {
					r.ContentLength = -1
				}
				peak.begin = heapNow()
				err := p.Serve(httptest.NewRecorder(), r, func(w http.ResponseWriter, r *http.Request) error {
					peak.look()
					if n, err := io.Copy(io.Discard, r.Body); err != nil || messages != "" && n >= int64(len(body)) {
						t.Errorf("%s: %d bytes of %d, %v", name, n, len(body), err)
					}
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, role)
					if left := heapNow() - peak.begin; left > 64<<10 {
						t.Errorf("%s, %d bytes: %d are left", name, len(body), left)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				// A request takes some of its own, and buffers are rounded up.
				if most := int64(2*len(body)) + 256<<10; peak.most > most {
					t.Errorf("%s, %d bytes, chunked %v: %d bytes, want at most %d", name, len(body), chunked, peak.most, most)
				}
			}
		}
	}
}

// heapNow returns the size of the heap without garbage.
func heapNow() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// peak is a body that looks while it is read how much memory it takes. If its length is
// known, that includes what has become garbage since it has looked last.
type peak struct {
	from        *strings.Reader
	chunked     bool
	begin, most int64
}

func (p *peak) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	if n == 0 || n >= 256<<10 || p.from.Len()%(256<<10) < n {
		p.look()
	}
	return n, err
}

func (p *peak) look() {
	if p.chunked { // its parts are garbage once they are one
		p.most = max(p.most, heapNow()-p.begin)
		return
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p.most = max(p.most, int64(m.HeapAlloc)-p.begin)
	runtime.GC()
}

// A length is a promise. Of bytes that have not come at most eight times as many
// are allocated as have.
func TestMemoryIsNotAllocatedForPromises(t *testing.T) {
	const promised = proxy.DefaultMaxRequest
	p := proxy.New(proxy.Options{})
	next := func(http.ResponseWriter, *http.Request) error { return nil }
	for _, came := range []int{1, 1000, 100_000, 1_000_000, promised/8 - 10} {
		part := []byte("{" + strings.Repeat(" ", came-1))
		got := allocated(func() {
			r := httptest.NewRequest(http.MethodPost, chatPath, nil)
			r.Body, r.ContentLength = io.NopCloser(io.MultiReader(bytes.NewReader(part), brokenOff{})), promised
			_ = p.Serve(httptest.NewRecorder(), r, next)
		})
		// What has been outgrown is garbage.
		if most := uint64(came)*4 + 128<<10; got > most {
			t.Errorf("%d bytes for %d of %d, want at most %d", got, came, promised, most)
		}
	}
}

// brokenOff is the rest of a body whose client has left.
type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
