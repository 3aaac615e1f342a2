package resume_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// pathOf returns the path that a recording was made of.
func pathOf(file string) string {
	switch name := filepath.Base(file); {
	case strings.HasPrefix(name, "responses."):
		return "/v1/responses"
	case strings.HasPrefix(name, "runs."):
		return "/v1/runs/run_1/events"
	case strings.HasPrefix(name, "session."):
		return "/api/sessions/s1/chat/stream"
	}
	return chatPath
}

// made is the id of a completion that package proxy has made up.
var made = regexp.MustCompile(`chatcmpl-[0-9a-f]{29}`)

// replayer returns a next handler that sends the recording that the request names, with
// repairs of package proxy.
func replayer(all map[string]string) resume.Next {
	p := proxy.New(proxy.Options{})
	return func(w http.ResponseWriter, r *http.Request) error {
		return p.Serve(w, r, func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream")
			for frame := range strings.SplitAfterSeq(all[r.Header.Get("X-File")], "\n\n") {
				_, _ = io.WriteString(w, frame)
				_ = http.NewResponseController(w).Flush()
			}
			return nil
		})
	}
}

// TestCutsOfEveryRecording cuts the client at every event of every recording, and lets it
// continue: what it has then is the answer as it would have been without a cut. Behind
// each cut of one kind it comes back once; on the other way it is cut again and again.
func TestCutsOfEveryRecording(t *testing.T) {
	all := resume.Recordings(t)
	next := replayer(all)
	l := newLab(t, nil, next)
	random := rand.New(rand.NewPCG(3, 4))
	streams := 0
	for file := range all {
		rec, plain := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, pathOf(file), strings.NewReader(asking))
		plain.Header.Set("X-File", file)
		_ = next(rec, plain)
		if rec.Code != http.StatusOK { // the recorded server had failed
			continue
		}
		streams++
		q := request{http.MethodPost, pathOf(file), asking, []string{key, file, "X-File", file}}
		first := l.send(q).want(http.StatusOK)
		id := first.id()
		whole := first.rest()
		if got, want := without(t, whole, id), resume.Loose(rec.Body.String()); made.ReplaceAllString(got, "") != made.ReplaceAllString(want, "") {
			t.Fatalf("%s: the answer is\n%s\nwithout resume\n%s", file, got, want)
		}
		ends := split(whole, id)
		behind := func(n int) string {
			at := post("Last-Event-ID", id+"/"+strconv.Itoa(n))
			at.path = pathOf(file)
			return l.send(at).want(http.StatusOK).rest()
		}
		for n := 0; n <= len(ends); n++ {
			from := 0
			if n > 0 {
				from = ends[n-1]
			}
			if got := whole[:from] + behind(n); got != whole {
				t.Fatalf("%s: continued behind %d is not the same", file, n)
			}
		}
		// Many cuts, each wherever it comes: of an event that was cut the client forgets
		// the beginning.
		var got strings.Builder
		for n := 0; ; {
			rest := behind(n)
			if cut := random.IntN(len(rest) + 200); cut < len(rest) {
				rest = rest[:cut]
				ends := split(rest, id)
				if len(ends) > 0 {
					got.WriteString(rest[:ends[len(ends)-1]])
					n += len(ends)
				}
				continue
			}
			got.WriteString(rest)
			break
		}
		if got.String() != whole {
			t.Fatalf("%s: with many cuts it is not the same", file)
		}
	}
	if streams < 50 {
		t.Errorf("%d streams only", streams)
	}
	l.wantAsked(int64(streams))
}

// split returns the indexes after the events of a stream.
func split(stream, id string) (ends []int) {
	at := 0
	for e := range strings.SplitAfterSeq(stream, "\n\n") {
		if at += len(e); strings.HasSuffix(e, "\n\n") && strings.Contains(e, "id: "+id+"/") {
			ends = append(ends, at)
		}
	}
	return ends
}
