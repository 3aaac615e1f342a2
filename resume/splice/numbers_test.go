package splice_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/splice"
)

// TestConnectionsThatBringNothingNew have the site asked less and less often, and given up after
// ResumeFor. What they repeat is not passed on.
func TestConnectionsThatBringNothingNew(t *testing.T) {
	const begin = 3 // the number of the last event that the client gets from the first answer
	first := numbered(1, "one") + numbered(2, "two") + numbered(begin, "three")
	for name, answer := range map[string]func(n int) string{
		"the last event":            func(int) string { return numbered(begin, "three") },
		"the last event, as it was": func(int) string { return numbered(begin, "x") },
		"an earlier event":          func(int) string { return numbered(1, "one") },
		"the number zero":           func(int) string { return numbered(0, "none") },
		"the whole stream":          func(int) string { return first },
		"the last event after a comment": func(int) string {
			return ": wait\n" + numbered(begin, "three")
		},
		"the last event with CRLF":   func(int) string { return strings.ReplaceAll(numbered(begin, "three"), "\n", "\r\n") },
		"the last event, large":      func(int) string { return numbered(begin, strings.Repeat("x", 1<<20)) },
		"an event of another stream": func(int) string { return "data: three\nid: stream_2222222222222222222222/9\n\n" },
		"an event without a number":  func(int) string { return "data: three\n\n" },
		"a number that is none":      func(int) string { return numbered("three", "three") },
		"a number below zero":        func(int) string { return numbered(-1, "three") },
		"a number that is too large": func(int) string { return numbered("99999999999999999999", "three") },
		"nothing":                    func(int) string { return "" },
		"ever more comments":         func(n int) string { return strings.Repeat(": wait\n", n) },
		"a part of an event":         func(int) string { return "data: x" },
	} {
		for how, end := range map[string]error{"breaks off": errCutOff, "ends": nil} {
			for after, d := range map[string]time.Duration{"at once": 0, "later": 700 * time.Millisecond} {
				if after == "later" && !strings.Contains(answer(1), "three\nid: "+streamID+"/3") {
					continue // a site that is silent for long is there (TestSilence)
				}
				proxytest.Bubble(t, fmt.Sprintf("%s, %s %s", name, how, after), func(t *testing.T) {
					x := &next{answer: func(r *http.Request, n int) (*http.Response, error) {
						if r.Method != http.MethodGet {
							return stream(first, errCutOff), nil
						}
						if at := r.Header.Get(resume.LastEventHeader); at != streamID+"/3" {
							t.Errorf("asked for what follows %q", at)
						}
						res := stream(answer(n), end)
						body := res.Body
						res.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
							n, err := body.Read(p)
							if err != nil {
								time.Sleep(d)
							}
							return n, err
						}))
						return res, nil
					}}
					begun := time.Now()
					all, err := x.read(t)
					took := time.Since(begun)
					synctest.Wait() // for the DELETE
					got := theirs(all)
					rest, ok := strings.CutPrefix(got, first)
					if !ok || strings.Contains(rest, streamID) || strings.Count(rest, "three") > 1 {
						t.Errorf("got %.300q", got)
					}
					if x.n[http.MethodGet] > 100 || took > 70*time.Second || x.n[http.MethodGet] > 1 && err != nil && took < 45*time.Second {
						t.Errorf("the site was asked %d times, in %v", x.n[http.MethodGet], took)
					}
					if err == nil && end != nil {
						t.Error("a good end")
					}
				})
			}
		}
	}
}

// TestEventThatGrows is not given up: connections may be too short for it. Each costs a pause.
func TestEventThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const grows = 100 // connections
		x := continued(numbered(1, "one"), errCutOff, func(n int) *http.Response {
			if n < grows {
				return stream("data: "+strings.Repeat("x", n), errCutOff)
			}
			return stream(numbered(2, strings.Repeat("x", grows))+numbered(3, "[DONE]"), nil)
		})
		begun := time.Now()
		all, err := x.read(t)
		got := theirs(all)
		if want := numbered(1, "one") + numbered(2, strings.Repeat("x", grows)) + numbered(3, "[DONE]"); err != nil || got != want {
			t.Errorf("%v after %q, want %q", err, got, want)
		}
		if took := time.Since(begun); took < grows*time.Second/20 {
			t.Errorf("%d connections in %v", grows, took)
		}
	})
}

// TestRepeatIsNoEnd has a site repeat an event for a while, and then go on: the client sees one
// stream.
func TestRepeatIsNoEnd(t *testing.T) {
	const comments = ": wait\n: wait\n"
	for name, test := range map[string]struct{ comments, repeats string }{
		"one":            {"", numbered(1, "one")},
		"and a new one":  {"", numbered(1, "one") + numbered(2, "two")},
		"after comments": {comments, numbered(1, "one")},
	} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			x := continued(numbered(1, "one"), errCutOff, func(n int) *http.Response {
				if n < 5 {
					return stream(test.comments+test.repeats, nil)
				}
				return stream(test.comments+numbered(2, "two")+numbered(7, "[DONE]"), nil)
			})
			got, err := x.read(t)
			if want := numbered(1, "one") + test.comments + numbered(2, "two") + numbered(7, "[DONE]"); err != nil || got != want {
				t.Errorf("%v after %q, want %q", err, got, want)
			}
		})
	}
}

// TestRepeatWithinAConnection is not passed on either.
func TestRepeatWithinAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := continued(numbered(1, "one")+numbered(1, "one")+numbered(2, "two"), nil, func(int) *http.Response {
			return stream(numbered(2, "two")+numbered(3, "[DONE]"), nil)
		})
		got, err := x.read(t)
		if want := numbered(1, "one") + numbered(2, "two") + numbered(3, "[DONE]"); err != nil || got != want {
			t.Errorf("%v after %q, want %q", err, got, want)
		}
	})
}

// TestIDsOfAnotherForm are no ids of streams: an answer with one passes as it is, and no request has
// it, in its path or in its header.
func TestIDsOfAnotherForm(t *testing.T) {
	for _, id := range []string{
		"../../../api/sessions/x", "..", ".", "x", "stream_", streamID + "1", streamID[:28], streamID + "/../x", streamID + "?x", streamID + "#x",
		"stream_%2e%2e%2f1111111111111111", "/" + streamID, " " + streamID, streamID + "\t", "STREAM_1111111111111111111111",
		"stream_11111111111111111111/1", "stream_111111111111111111111é", strings.Repeat("stream_1", 10000), "http://elsewhere/" + streamID,
	} {
		for how, end := range map[string]error{"broken": errCutOff, "whole": nil, "left": nil} {
			synctest.Test(t, func(t *testing.T) {
				x := &next{answer: func(r *http.Request, n int) (*http.Response, error) {
					if r.Method != http.MethodPost {
						t.Errorf("%.60q, %s: %s %s, %q", id, how, r.Method, r.URL, r.Header)
					}
					res := stream(numbered(1, "one"), end)
					res.Header[resume.StreamHeader] = []string{id}
					return res, nil
				}}
				res := mustAsk(t, &splice.Transport{Next: x}, chats)
				if how != "left" {
					b, err := io.ReadAll(res.Body)
					if string(b) != numbered(1, "one") || !errors.Is(err, end) {
						t.Errorf("%.60q, %s: %v after %q", id, how, err, b)
					}
				}
				_ = res.Body.Close()
				synctest.Wait() // for a DELETE
			})
		}
	}
}

// TestStatusOfAnotherForm is not in an error: a site may send much as the text of a status.
func TestStatusOfAnotherForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := continued(numbered(1, "one"), errCutOff, func(int) *http.Response {
			res := reply(502, "text/html", "", nil)
			res.Status = "502 " + strings.Repeat("sk-secret ", 1000)
			return res
		})
		if _, err := x.read(t); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "502") {
			t.Errorf("%.200v", err)
		}
		synctest.Wait()
	})
}
