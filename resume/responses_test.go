package resume_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

const (
	responsesPath = "/v1/responses"
	inBackground  = `{"stream":true,"background":true,"input":"hi"}`
	responseID    = "resp_1"
)

// responseFrame returns an event of a response, as Hermes sends it.
func responseFrame(kind, members string, number int) string {
	return fmt.Sprintf("event: response.%s\ndata: {\"type\": \"response.%s\", %s\"sequence_number\": %d}\n\n", kind, kind, members, number)
}

// responseObject returns the member with the response.
func responseObject(status string) string {
	return `"response": {"id": "` + responseID + `", "object": "response", "status": "` + status + `", "created_at": 1, "model": "hermes-agent", "output": []}, `
}

// responseStatus is an event without a number.
const responseStatus = "event: hermes.status\ndata: {\"kind\": \"warn\", \"text\": \"b\"}\n\n"

// responseFrames returns the stream of a response: its number is missing in the third event.
func responseFrames() []string {
	return []string{
		responseFrame("created", responseObject("in_progress"), 0),
		responseFrame("output_text.delta", `"delta": "a", `, 1),
		responseStatus,
		responseFrame("output_text.delta", `"delta": "b", "logprobs": NaN, `, 2),
		responseFrame("completed", responseObject("completed"), 3),
	}
}

// response is a POST that begins one.
func response(body string, header ...string) request {
	q := post(header...)
	q.path, q.body = responsesPath, body
	return q
}

// retrieve is a GET for the stream of the response.
func retrieve(after string, header ...string) request {
	path := responsesPath + "/" + responseID + "?stream=true"
	if after != "" {
		path += "&starting_after=" + after
	}
	return request{http.MethodGet, path, "", header}
}

// cancel is a POST that cancels the response.
func cancelResponse(header ...string) request {
	return request{http.MethodPost, responsesPath + "/" + responseID + "/cancel", "", header}
}

// passing is a next handler that sends the stream of a response for a POST of one, and says of
// every other request that it has come.
func passing(stream resume.Next) resume.Next {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Method == http.MethodPost && r.URL.Path == responsesPath {
			return stream(w, r)
		}
		_, err := io.WriteString(w, "passed")
		return err
	}
}

// wantPassed checks that upstream has answered.
func (r *reply) wantPassed() {
	r.t.Helper()
	if got := r.want(http.StatusOK).rest(); got != "passed" {
		r.t.Errorf("upstream has not answered, but %q", got)
	}
}

// TestResponseByItsID gives the events after each number, those without one with the one before
// them, while the stream goes on and after.
func TestResponseByItsID(t *testing.T) {
	frames := responseFrames()
	from := map[string]int{"": 0, "0": 1, "1": 2, "2": 4, "3": 5, "9": 5}
	for _, asks := range []struct {
		name string
		q    request
		set  func(*resume.Options)
	}{
		{"in the background", response(inBackground), nil},
		{"with a key", response(asking, key, "k"), nil},
		{"with a duration", response(asking, resume.DetachHeader, "1m"), nil},
		{"always", response(asking), func(o *resume.Options) { o.Always = true }},
		{"below a path", response(inBackground), func(o *resume.Options) {
			o.Target = func(r *http.Request) (server, path string) { return "", "/agent" + r.URL.Path }
		}},
	} {
		t.Run(asks.name, func(t *testing.T) {
			each := make(chan struct{}, 4)
			for range 4 {
				each <- struct{}{}
			}
			l := newLab(t, asks.set, passing(streams(frames, each)))
			first := l.send(asks.q).want(http.StatusOK)
			id := first.id()
			for range 4 {
				first.next()
			}
			live := map[string]*reply{}
			for after, n := range from {
				if n < len(frames) { // the header of others comes with the end
					live[after] = l.send(retrieve(after)).want(http.StatusOK)
				}
			}
			close(each)
			for after, r := range live {
				r.wantRest(numbered(id, from[after]+1, frames[from[after]:]...))
			}
			first.rest()
			for after, n := range from {
				l.send(retrieve(after)).want(http.StatusOK).wantRest(numbered(id, n+1, frames[n:]...))
			}
			l.wantAsked(1)
			st := l.runs.Stats()
			if r, c := st.TotalAttached[resume.HowReplayed], st.TotalAttached[resume.HowContinued]; r != 2 || c != 8 {
				t.Errorf("%d replayed and %d continued", r, c)
			}
		})
	}
}

// TestLongResponseAfterEachNumber gives the events after each number of a long stream, many of which
// have none.
func TestLongResponseAfterEachNumber(t *testing.T) {
	const n = 400
	frames := []string{responseFrame("created", responseObject("in_progress"), 0)}
	from := []int{1} // the index of the first frame after each number
	for i := 1; i < n; i++ {
		for range i % 7 * (i % 3) {
			frames = append(frames, responseStatus)
		}
		frames = append(frames, responseFrame("output_text.delta", `"delta": "`+strings.Repeat("a", i%5*100)+`", `, 2*i))
		from = append(from, len(frames)-1, len(frames)) // the number 2*i-1 is missing
	}
	l := newLab(t, nil, passing(streams([]string{strings.Join(frames, "")}, always())))
	first := l.send(response(inBackground)).want(http.StatusOK)
	id, _ := first.id(), first.rest()
	for after, begins := range from {
		if got, want := l.send(retrieve(strconv.Itoa(after))).want(http.StatusOK).rest(), numbered(id, begins+1, frames[begins:]...); got != want {
			t.Fatalf("after %d: %.300q, want %.300q", after, got, want)
		}
	}
}

// TestResponseThatIsAwaited gives the events after one that has not come yet, once it has.
func TestResponseThatIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frames, each := responseFrames(), make(chan struct{}, 1)
		each <- struct{}{}
		l := newPipeLab(t, nil, passing(streams(frames, each)))
		first := l.send(response(inBackground))
		first.next()
		answer := l.sending(retrieve("1"))
		synctest.Wait()
		close(each)
		(<-answer).want(http.StatusOK).wantRest(numbered(first.id(), 3, frames[2:]...))
	})
}

// TestResponseContinuesAfterAnEvent has an EventSource come back, whose address stays the same.
func TestResponseContinuesAfterAnEvent(t *testing.T) {
	frames := responseFrames()
	l := newLab(t, nil, passing(streams(frames, always())))
	first := l.send(response(inBackground))
	first.rest()
	id := first.id()
	l.send(retrieve("0", "Last-Event-ID", id+"/3")).want(http.StatusOK).wantRest(numbered(id, 4, frames[3:]...))
	l.send(retrieve("0", "Last-Event-ID", id+"/5")).want(http.StatusNoContent)
	problemOf(t, l.send(retrieve("", "Last-Event-ID", id+"/6")), http.StatusBadRequest)
	problemOf(t, l.send(retrieve("", "Last-Event-ID", id)), http.StatusBadRequest)
	problemOf(t, l.send(retrieve("", "Last-Event-ID", "stream_"+strings.Repeat("A", 22)+"/1")), http.StatusBadRequest)
	for _, after := range []string{"x", "-1", "1.5"} {
		problemOf(t, l.send(retrieve(after)), http.StatusBadRequest)
	}
	l.wantAsked(1)
}

// TestResponsesThatPass are asked for without a stream, by others, elsewhere, or have no stream here.
func TestResponsesThatPass(t *testing.T) {
	l := newLab(t, nil, passing(streams(responseFrames(), always())))
	l.send(response(inBackground, "Authorization", "Bearer a")).rest()
	mine := []string{"Authorization", "Bearer a"}
	for name, q := range map[string]request{
		"whole":             {http.MethodGet, responsesPath + "/" + responseID, "", mine},
		"no stream":         {http.MethodGet, responsesPath + "/" + responseID + "?stream=false", "", mine},
		"no boolean":        {http.MethodGet, responsesPath + "/" + responseID + "?stream=x&starting_after=1", "", mine},
		"unknown":           {http.MethodGet, responsesPath + "/resp_2?stream=true", "", mine},
		"none":              {http.MethodGet, responsesPath + "/?stream=true", "", mine},
		"elsewhere":         {http.MethodGet, "/p/work" + responsesPath + "/" + responseID + "?stream=true", "", mine},
		"not theirs":        retrieve("", "Authorization", "Bearer b"),
		"not theirs at all": retrieve(""),
		"another's end":     cancelResponse("Authorization", "Bearer b"),
		"an unknown end":    {http.MethodPost, responsesPath + "/resp_2/cancel", "", mine},
		"deleted":           {http.MethodDelete, responsesPath + "/" + responseID + "?stream=true", "", mine},
		"another API":       {http.MethodPost, "/v1/runs/" + responseID + "/cancel", "", mine},
	} {
		t.Run(name, func(t *testing.T) { l.send(q).wantPassed() })
	}
	if got := l.send(retrieve("", mine...)).rest(); !strings.Contains(got, "response.completed") {
		t.Errorf("not kept: %q", got)
	}
}

// TestResponseThatIsNotKept passes, whatever its request says.
func TestResponseThatIsNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		q   request
		set func(*resume.Options)
	}{
		"no background":     {q: response(asking)},
		"background: false": {q: response(`{"stream":true,"background":false}`)},
		"no stream":         {q: response(`{"background":true}`)},
		"switched off":      {q: response(inBackground, resume.DetachHeader, "0s")},
		"no JSON":           {q: request{http.MethodPost, responsesPath, inBackground, []string{"Content-Type", "text/plain"}}},
		"no detach":         {q: response(inBackground), set: func(o *resume.Options) { o.Detach = 0 }},
		"too large":         {q: response(inBackground), set: func(o *resume.Options) { o.MaxRequest = func() int64 { return int64(len(inBackground)) - 1 } }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, c.set, passing(func(w http.ResponseWriter, r *http.Request) error {
				if b, err := io.ReadAll(r.Body); string(b) != c.q.body || err != nil {
					t.Errorf("upstream gets %q, %v", b, err)
				}
				if resume.Background(r.Context()) {
					t.Error("it counts as one in the background")
				}
				return streams(responseFrames(), always())(w, r)
			}))
			r := l.send(c.q).want(http.StatusOK)
			if got := r.rest(); got != strings.Join(responseFrames(), "") || r.id() != "" {
				t.Errorf("it gets %q with the id %q", got, r.id())
			}
			l.send(retrieve("")).wantPassed()
			l.wantEmpty()
		})
	}
}

// TestBackgroundGoesOn without a client for as long as any stream, also that of an SDK, or as a header
// says, and is kept as long. Its handlers know.
func TestBackgroundGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		header []string
		lasts  time.Duration
	}{
		"by itself":   {nil, resume.DefaultDetach},
		"a header":    {[]string{resume.DetachHeader, "1s"}, time.Second},
		"of an SDK's": {[]string{retryHeader, "0"}, resume.DefaultDetach},
	} {
		for ends, reason := range map[string]log.Reason{"ends": log.ReasonNone, "expires": log.ReasonExpired} {
			proxytest.Bubble(t, name+", "+ends, func(t *testing.T) {
				each := make(chan struct{}, 1)
				each <- struct{}{}
				l := newPipeLab(t, nil, passing(func(w http.ResponseWriter, r *http.Request) error {
					if b, _ := io.ReadAll(r.Body); string(b) != inBackground {
						t.Errorf("upstream gets %q", b)
					}
					if !resume.Background(r.Context()) {
						t.Error("its handlers do not know")
					}
					return streams(responseFrames(), each)(w, r)
				}))
				l.leaves(response(inBackground, c.header...))
				if time.Sleep(c.lasts - 1); reason == log.ReasonNone {
					close(each)
				}
				time.Sleep(1)
				if e := l.over(); e.Reason != reason || reason == log.ReasonNone && e.Events != 5 {
					t.Errorf("it ends %+v", e)
				}
				time.Sleep(resume.DefaultKeep - time.Second)
				got := l.send(retrieve("2")).want(http.StatusOK).rest()
				if completes := strings.Contains(got, "response.completed"); completes != (reason == log.ReasonNone) {
					t.Errorf("it gets %q", got)
				}
			})
		}
	}
	if resume.Background(context.Background()) {
		t.Error("nothing counts as one in the background")
	}
}

// TestResponseIsFoundFromItsFirstByte on, however upstream cuts it, and not after keep.
func TestResponseIsFoundFromItsFirstByte(t *testing.T) {
	first := responseStatus + ": keepalive\n\n" + responseFrame("created", responseObject("in_progress"), 0)
	var pieces []string
	for i := range len(first) {
		pieces = append(pieces, first[i:i+1])
	}
	pieces = append(pieces, responseFrame("completed", responseObject("completed"), 1))
	synctest.Test(t, func(t *testing.T) {
		each := make(chan struct{}, len(pieces))
		for range pieces[1:] {
			each <- struct{}{}
		}
		l := newPipeLab(t, nil, passing(streams(pieces, each)))
		r := l.send(response(inBackground))
		r.next()
		r.next()
		again := l.send(retrieve("")).want(http.StatusOK)
		again.next()
		close(each)
		again.rest()
		l.over()
		l.send(retrieve("0")).want(http.StatusOK).rest()
		synctest.Wait()
		if _, logs := l.store.Used(); logs != 1 {
			t.Errorf("%d streams are counted", logs)
		}
		time.Sleep(resume.DefaultKeep + 1)
		l.send(retrieve("")).wantPassed()
		l.wantEmpty()
	})
}

// TestResponseWithAnotherBeginning is found by its stream's id alone.
func TestResponseWithAnotherBeginning(t *testing.T) {
	for name, begin := range map[string]string{
		"too late":      ":" + strings.Repeat(" ", 16<<10) + "\n\n" + responseFrame("created", responseObject("in_progress"), 0),
		"too large":     responseFrame("created", `"x": "`+strings.Repeat("x", 16<<10)+`", `+responseObject("in_progress"), 0),
		"no id":         responseFrame("created", `"response": {"id": 1}, `, 0),
		"no response":   responseFrame("created", "", 0),
		"another event": responseFrame("in_progress", responseObject("in_progress"), 0),
		"no JSON":       "data: " + responseID + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil, passing(streams([]string{begin}, always())))
			first := l.send(response(inBackground))
			first.rest()
			l.send(retrieve("")).wantPassed()
			l.send(request{http.MethodGet, responsesPath + "/" + first.id(), "", nil}).want(http.StatusOK)
		})
	}
}

// TestResponseAfterAWaitInLine is found by its id, however many comments have told its client of its place.
func TestResponseAfterAWaitInLine(t *testing.T) {
	begin := strings.Repeat(": keepalive\n\n", 2000) + responseFrames()[0]
	l := newLab(t, nil, passing(streams([]string{begin}, always())))
	l.send(response(inBackground)).rest()
	l.send(retrieve("")).want(http.StatusOK).rest()
	l.wantAsked(1)
}

// TestResponseWithTwoBeginnings has the id of the first.
func TestResponseWithTwoBeginnings(t *testing.T) {
	second := strings.ReplaceAll(responseFrames()[0], responseID, "resp_2")
	l := newLab(t, nil, passing(streams([]string{responseFrames()[0], second}, always())))
	l.send(response(inBackground)).rest()
	l.send(request{http.MethodGet, responsesPath + "/resp_2?stream=true", "", nil}).wantPassed()
	l.send(retrieve("")).want(http.StatusOK).rest()
	l.wantAsked(2)
}

// TestResponseWithAnIDThatIsInUse leaves the name to the first stream that has it.
func TestResponseWithAnIDThatIsInUse(t *testing.T) {
	l := newLab(t, nil, passing(streams(responseFrames(), always())))
	first := l.send(response(inBackground))
	first.rest()
	second := l.send(response(inBackground))
	second.rest()
	if got := l.send(retrieve("")).id(); got != first.id() || got == second.id() {
		t.Errorf("it has the stream %q", got)
	}
	l.send(request{http.MethodDelete, responsesPath + "/" + second.id(), "", nil}).want(http.StatusNoContent)
	l.send(request{http.MethodDelete, responsesPath + "/" + first.id(), "", nil}).want(http.StatusNoContent)
	l.send(retrieve("")).wantPassed()
}

// TestResponseThatHasLostItsBeginning says which event is the first that is kept, unless it is
// the next one.
func TestResponseThatHasLostItsBeginning(t *testing.T) {
	frames := responseFrames()[:1]
	pad := `"delta": "` + strings.Repeat("x", 8<<10) + `", `
	for n := 1; n <= 20; n++ { // two numbers of three are missing
		frames = append(frames, responseFrame("output_text.delta", pad, 3*n))
	}
	l := newLab(t, func(o *resume.Options) { o.MaxStream = 64 << 10 }, passing(streams(frames, always())))
	r := l.send(response(inBackground))
	r.rest()
	id := r.id()
	first := int(problemOf(t, l.send(retrieve("0")), http.StatusGone)["first"].(float64))
	if first < 2 {
		t.Fatalf("the event %d is there", first)
	}
	problemOf(t, l.send(retrieve("")), http.StatusGone)
	number := 3 * (first - 1)
	problemOf(t, l.send(retrieve(strconv.Itoa(number-2))), http.StatusGone)
	for after := number - 1; after <= 60; after++ {
		from := after/3 + 1 // the index of the next event
		l.send(retrieve(strconv.Itoa(after))).want(http.StatusOK).wantRest(numbered(id, from+1, frames[from:]...))
	}
}

// TestResponseThatHasBrokenOff breaks off for those that ask for it, and ends as nobody knows.
func TestResponseThatHasBrokenOff(t *testing.T) {
	frames := responseFrames()
	l := newLab(t, nil, passing(func(w http.ResponseWriter, r *http.Request) error {
		_ = streams(frames[:2], always())(w, r)
		panic(http.ErrAbortHandler)
	}))
	first := l.send(response(inBackground))
	first.broken()
	if got := l.send(retrieve("0")).want(http.StatusOK).broken(); got != numbered(first.id(), 2, frames[1]) {
		t.Errorf("it gets %q", got)
	}
	for _, after := range []string{"1", "5"} {
		if got := l.send(retrieve(after)).want(http.StatusOK).broken(); got != "" {
			t.Errorf("after %s: %q", after, got)
		}
	}
	l.send(cancelResponse()).wantPassed()
}

// TestResponseWithLargeEvents counts those that are too large to be searched for a number.
func TestResponseWithLargeEvents(t *testing.T) {
	large := responseFrame("output_item.done", `"x": "`+strings.Repeat("x", 1<<20)+`", `, 1)
	frames := []string{responseFrames()[0], large, responseFrame("output_text.delta", "", 2), large}
	l := newLab(t, nil, passing(streams(frames, always())))
	r := l.send(response(inBackground))
	r.rest()
	for after, from := range map[string]int{"0": 1, "1": 2, "2": 3, "3": 4} {
		l.send(retrieve(after)).want(http.StatusOK).wantRest(numbered(r.id(), from+1, frames[from:]...))
	}
	l.send(cancelResponse()).wantPassed() // how it has ended is not known
}

// TestCancellingAResponse ends the run: upstream's connection is closed, and clients that read get the
// end. It is forgotten after keep.
func TestCancellingAResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeLab(t, nil, passing(streams(responseFrames(), onlyOnce())))
		first := l.send(response(inBackground))
		first.next()
		reader := l.send(retrieve(""))
		for range 2 { // it does not matter how often
			r := l.send(cancelResponse()).want(http.StatusOK)
			if got := r.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type %q", got)
			}
			var got map[string]any
			if err := json.Unmarshal([]byte(r.rest()), &got); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got) != "map[created_at:1 id:resp_1 model:hermes-agent object:response output:[] status:cancelled]" {
				t.Errorf("the response is %v", got)
			}
		}
		l.wantOver(log.ReasonDeleted)
		for _, r := range []*reply{first, reader} {
			if got := r.rest(); !strings.Contains(got, `"type":"response.failed"`) || !strings.Contains(got, `"sequence_number":1`) {
				t.Errorf("a client gets the end %q", got)
			}
		}
		l.send(retrieve("")).wantPassed()
		l.wantAsked(2)
		time.Sleep(resume.DefaultKeep + 1)
		l.send(cancelResponse()).wantPassed()
		l.wantEmpty()
	})
}

// TestCancellingAResponseThatHasEnded gets how, also before upstream has closed its connection.
func TestCancellingAResponseThatHasEnded(t *testing.T) {
	each := make(chan struct{}, len(responseFrames()))
	for range responseFrames() {
		each <- struct{}{}
	}
	l := newLab(t, nil, passing(streams(append(responseFrames(), responseStatus), each)))
	first := l.send(response(inBackground))
	for range responseFrames() {
		first.next()
	}
	wantCompleted := func() {
		t.Helper()
		var got map[string]any
		if err := json.Unmarshal([]byte(l.send(cancelResponse()).want(http.StatusOK).rest()), &got); err != nil || got["status"] != "completed" {
			t.Errorf("the response is %v, %v", got, err)
		}
	}
	wantCompleted()
	close(each)
	l.wantOver(log.ReasonNone)
	wantCompleted()
	wantCompleted()
	if got := l.send(retrieve("2")).want(http.StatusOK).rest(); !strings.Contains(got, "response.completed") {
		t.Error("it is gone")
	}
	l.wantAsked(1)
	l.send(request{http.MethodDelete, responsesPath + "/" + first.id(), "", nil}).want(http.StatusNoContent)
	l.send(cancelResponse()).wantPassed() // nobody has cancelled it
}

// TestResponseKeepsItsRun has a client look for an event in a run that may not go on without one.
func TestResponseKeepsItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		each := make(chan struct{}, 2)
		for range 2 {
			each <- struct{}{}
		}
		l := newPipeLab(t, func(o *resume.Options) { o.MaxDetached = 1 }, passing(streams(responseFrames(), each)))
		l.leaves(response(inBackground))
		for range 100 {
			l.send(retrieve("0")).want(http.StatusOK).leave()
			synctest.Wait()
		}
		if st := l.runs.Stats(); st.TotalDetached != 101 || l.runs.Open() != 1 {
			t.Errorf("%d times without a client, %d runs", st.TotalDetached, l.runs.Open())
		}
		close(each)
		l.over()
	})
}

// noReader is a reader that fails.
type noReader struct{}

func (noReader) Next() (log.Part, error) { return log.Part{}, errAway }
func (noReader) Close()                  {}

// panicking is the writer of a name whose end panics.
type panicking struct{ log.Writer }

func (panicking) End(log.State) { panic("the end") }

// TestResponseWithAStorageThatHangs goes on, and its client waits for a moment only.
func TestResponseWithAStorageThatHangs(t *testing.T) {
	set := func(o *resume.Options) {
		o.Store = &oddStore{Store: o.Store, claim: func(ctx context.Context, e log.Entry, _ int64) error {
			if !e.Empty {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}
	}
	inBubble(t, set, passing(streams(responseFrames(), always())), func(t *testing.T, l *lab) {
		began := time.Now()
		first := l.send(response(inBackground))
		first.wantRest(numbered(first.id(), 1, responseFrames()...))
		if d := time.Since(began); d != time.Second {
			t.Errorf("it waits for %v", d)
		}
		l.send(retrieve("")).wantPassed()
	})
}

// TestResponseWithAStorageThatFails is not asked of upstream, where it may go on.
func TestResponseWithAStorageThatFails(t *testing.T) {
	s := new(oddStore)
	l := newLab(t, func(o *resume.Options) { s.Store, o.Store = o.Store, s }, passing(streams(responseFrames(), onlyOnce())))
	l.send(response(inBackground)).next()
	s.remove = errAway
	problemOf(t, l.send(cancelResponse()), http.StatusServiceUnavailable)
	s.read = func(context.Context) log.Reader { return noReader{} }
	problemOf(t, l.send(cancelResponse()), http.StatusServiceUnavailable)
	problemOf(t, l.send(retrieve("0")), http.StatusServiceUnavailable)
	s.find = func(string) error { return errAway }
	problemOf(t, l.send(cancelResponse()), http.StatusServiceUnavailable)
	problemOf(t, l.send(retrieve("")), http.StatusServiceUnavailable)
	l.send(request{http.MethodGet, responsesPath + "/" + responseID, "", nil}).wantPassed()
	l.wantAsked(2)
}

// TestResponseWithAStorageThatPanics ends all the same.
func TestResponseWithAStorageThatPanics(t *testing.T) {
	l := newLab(t, func(o *resume.Options) {
		o.Store = &oddStore{Store: o.Store, writer: func(e log.Entry, w log.Writer) log.Writer {
			if e.Empty {
				return panicking{w}
			}
			return w
		}}
	}, passing(streams(responseFrames(), always())))
	first := l.send(response(inBackground))
	for range responseFrames() {
		first.next()
	}
	first.broken()
	again := l.send(request{http.MethodGet, responsesPath + "/" + first.id(), "", nil}).want(http.StatusOK)
	again.wantRest(numbered(first.id(), 1, responseFrames()...))
}

// TestNamesTakeWhatIsCounted of the memory of all streams.
func TestNamesTakeWhatIsCounted(t *testing.T) {
	m := log.NewMemory()
	e := log.Entry{ID: "stream_" + strings.Repeat("A", 22), Empty: true, About: []byte(strings.Repeat("x", 10<<10)), MaxMemory: 64 << 20}
	_, w, err := m.Claim(context.Background(), e, log.Run{})
	if used, logs := m.Used(); used < 12<<10 || logs != 0 || err != nil {
		t.Errorf("%d bytes of %d streams, %v", used, logs, err)
	}
	w.End(log.Dropped)
	if used, _ := m.Used(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}
