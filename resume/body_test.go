package resume_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// allocated returns how many bytes have been allocated, ever.
func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// repeated returns n bytes of before, as many of what fit, and after.
func repeated(before, what, behind string, n int) []byte {
	var b bytes.Buffer
	b.Grow(n)
	b.WriteString(before)
	for b.Len()+len(what)+len(behind) <= n {
		b.WriteString(what)
	}
	b.WriteString(behind)
	return b.Bytes()
}

// TestABodyTakesItsSize has four clients send 10 MB each, in shapes that take a multiple when
// they are read into values. What is allocated for that, and what is kept while the next
// handler has not read it, is a small multiple of the size.
func TestABodyTakesItsSize(t *testing.T) {
	const size, clients = proxy.DefaultMaxRequest, 4
	for name, body := range map[string][]byte{
		"objects":            repeated(`{"stream":[{"":0}`, `,{"":0}`, `]}`, size),
		"numbers":            repeated(`{"stream":[0`, `,0`, `]}`, size),
		"depth":              repeated(`{"stream":`, `[`, ``, size),
		"depth of objects":   repeated(`{"stream":`, `{"a":`, ``, size),
		"members":            repeated(`{"a":0`, `,"a":0`, `,"stream":true}`, size),
		"the member itself":  repeated(`{"stream":true`, `,"stream":true`, `}`, size),
		"escaped names":      repeated(`{"a":0`, `,"\u0061\u0061\u0061\u0061":0`, `,"\u0073tream":true}`, size),
		"a string":           repeated(`{"stream":"`, `\u0061`, `"}`, size),
		"a name":             repeated(`{"`, `\u0061`, `":0,"stream":true}`, size),
		"messages":           repeated(`{"stream":true,"messages":[{}`, `,{}`, `]}`, size),
		"messages in a list": repeated(`{"stream":true,"messages":[[]`, `,[]`, `]}`, size),
		"no JSON":            repeated(``, `[`, ``, size),
		"white space":        repeated(``, ` `, ``, size),
	} {
		lengths := []int64{int64(len(body))}
		if name == "objects" {
			lengths = append(lengths, -1)
		}
		for _, length := range lengths {
			t.Run(name+" of length "+strconv.FormatInt(length, 10), func(t *testing.T) {
				p := resume.New(resume.DefaultOptions())
				var there, over sync.WaitGroup
				there.Add(clients)
				read := make(chan struct{})
				before, allocatedBefore := heap(), allocated()
				for i := range clients {
					over.Go(func() {
						r := httptest.NewRequest(http.MethodPost, chatPath, io.NopCloser(io.MultiReader(bytes.NewReader(body))))
						r.ContentLength = length
						r.Header.Set(key, strconv.Itoa(i))
						_ = p.Serve(httptest.NewRecorder(), r, func(_ http.ResponseWriter, r *http.Request) error {
							there.Done()
							<-read
							n, err := io.Copy(io.Discard, r.Body)
							if n != int64(len(body)) || err != nil {
								t.Errorf("%d bytes, %v", n, err)
							}
							return nil
						})
					})
				}
				there.Wait()
				took, kept := allocated()-allocatedBefore, heap()-before
				close(read)
				over.Wait()
				if most := int64(clients * (size*5/2 + 1<<20)); took > most {
					t.Errorf("%d bytes are allocated for %d, at most %d may be", took, clients*size, most)
				}
				if most := int64(clients * (size*5/4 + 64<<10)); kept > most {
					t.Errorf("%d bytes are kept of %d, at most %d may be", kept, clients*size, most)
				}
			})
		}
	}
}

// TestWhoAsksForAStream: only if a request says that it wants one, its run goes on without
// a client before there is an answer.
func TestWhoAsksForAStream(t *testing.T) {
	for body, asks := range map[string]bool{
		`{"stream":true}`: true, ` { "a" : [1, {"stream":false}], "stream" : true } `: true, `{"stream":false,"stream":true}`: true,
		`{"\u0073tre\u0061m":true}`: true, `{"a\"":"}","stream":true}`: true,
		`{}`: false, `{"stream":false}`: false, `{"stream":true,"stream":false}`: false, `{"stream":true,"s\u0074ream":null}`: false,
		`{"stream":"true"}`: false, `{"stream":1}`: false, `{"stream":[true]}`: false, `{"a":{"stream":true}}`: false, `{"Stream":true}`: false,
		`[{"stream":true}]`: false, `{"stream":true`: false, `{"stream":true}}`: false, ``: false,
	} {
		l := newLab(t, nil, func(_ http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			return context.Cause(r.Context())
		})
		q := post(key, "k")
		q.body = body
		gone := make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			defer close(gone)
			r, err := http.NewRequestWithContext(ctx, q.method, l.srv.URL+q.path, strings.NewReader(q.body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set(key, "k")
			if res, err := l.srv.Client().Do(r); err == nil {
				res.Body.Close()
			}
		}()
		until(t, "it is asked", func() bool { return l.asked.Load() == 1 })
		cancel()
		<-gone
		if asks {
			until(t, body+" goes on", func() bool { return l.runs.Stats().Detached == 1 })
		} else if e := l.over(); e.Reason != resume.ReasonLeft {
			t.Errorf("%s ends for %v", body, e.Reason)
		}
	}
}
