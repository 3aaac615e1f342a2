package proxy_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// wantObserved checks what was observed of streams.
func (x *exchange) wantObserved(want ...string) {
	x.T.Helper()
	if !slices.Equal(x.Lines, want) {
		x.T.Errorf("the observer observed\n%q\nwant\n%q", x.Lines, want)
	}
}

// TestStreamsAreObserved: a stream with its chunks and tools, and each that begins ends.
func TestStreamsAreObserved(t *testing.T) {
	const chat, elsewhere = "begin /v1/chat/completions chat", "begin /elsewhere chat"
	const none, one, two = `0 chunks of ""`, `1 chunks of "chatcmpl-1"`, `2 chunks of "chatcmpl-1"`
	for _, c := range []struct {
		does string
		set  setting
		want []string
	}{
		{"+1s header keepalive half-role +1s rest-role +1s tool+text abort", path(chatPath), []string{
			chat, none + " after 1s", none + " after 1s", one + " after 2s", "tool terminal false marker after 3s",
			"tool terminal true inferred after 3s", `3 chunks of "chatcmpl-1" after 3s`, "end upstream_aborted",
		}},
		// A tool ends with its stream, not with the last byte of upstream's.
		{"header role+tool +5s abort", path(chatPath), []string{
			chat, "tool terminal false marker after 0s", two + " after 0s", "tool terminal true end after 5s", "end upstream_aborted",
		}},
		// One that turns out to be ours is observed with the tools of the same read.
		{"header array role+tool end", path("/elsewhere"), []string{
			elsewhere, "tool terminal false marker after 0s", two + " after 0s", "tool terminal true end after 0s", "end upstream_incomplete",
		}},
		{"header array end", path("/elsewhere"), nil},
		{"gzip part end", path(chatPath), []string{chat, "end passed_encoded"}},
		{"header leave abort", path(chatPath), []string{chat, "end client_gone"}},
		{"header run abort", path("/v1/runs/run_1/events"), []string{
			"begin /v1/runs/run_1/events other", `1 chunks of "run_1" after 0s`, "end upstream_aborted",
		}},
	} {
		bubble(t, c.does, func(t *testing.T) {
			x := begin(t, c.set)
			x.words = map[string]string{
				"half-role": role[:9], "rest-role": role[9:], "role+tool": role + written["tool"], "tool+text": written["tool"] + text("Hi"),
				"run": `data: {"event":"run.started","run_id":"run_1","timestamp":1}` + "\n\n",
			}
			for word := range strings.FieldsSeq(c.does) {
				if end, ends := endings[word]; ends {
					end(x)
				} else {
					x.happens(word)
				}
			}
			x.wantObserved(c.want...)
		})
	}
}

// TestErrorInTheSteadOfAStreamIsObserved at its end, but not where no stream was
// asked for.
func TestErrorInTheSteadOfAStreamIsObserved(t *testing.T) {
	for body, lines := range map[string][]string{
		clean: {"begin /v1/chat/completions chat", "end upstream_timeout"}, `{"messages":[]}`: nil,
	} {
		x := begin(t, statusOf(504), asking(body))
		x.Ret(timedOut{})
		x.wantObserved(lines...)
		if res := x.Result(); res.Whole != (lines == nil) || res.Outcome != rewrite.CodeTimeout {
			t.Errorf("result %+v", res)
		}
	}
}

// recorded has the observer observe the bytes of streams.
var recorded = option(func(o *proxy.Options) { o.ObserveRaw = true })

// TestStreamsAreRecorded as they came, whatever the client gets: with what came before, up to
// 64 KiB, if one turns out to be ours. What is no stream of ours is not recorded.
func TestStreamsAreRecorded(t *testing.T) {
	torn, early := role+text("\\n`💻 ls`\\n")+"data: {torn", ": "+strings.Repeat("c", 64<<10-4)+"\n\n"
	for _, c := range []struct {
		path   string
		pieces []string
		end    string
		want   string
		cause  rewrite.Cause
	}{
		{chatPath, []string{torn[:5], torn[5:100], torn[100:]}, "abort", torn, rewrite.CauseAborted},
		{"/elsewhere", []string{"data: x\n\n", role[:20], role[20:]}, "end", "data: x\n\n" + role, rewrite.CauseEOF},
		{"/elsewhere", []string{"data: x\n\n"}, "end", "", 0},
		{"/elsewhere", []string{early, role, stop, done}, "end", early + role + stop + done, rewrite.CauseEOF},
		{"/elsewhere", []string{": c" + early[2:], role, stop, done}, "end", "", rewrite.CauseEOF},
	} {
		x := begin(t, path(c.path), recorded)
		x.Stream()
		x.Write(c.pieces...)
		endings[c.end](x).WantSwallowed(t)
		equal(t, x.Recorded, c.want, "what is recorded")
		if b := x.Begun; b.Raw != (c.want != "") || b.Raw && (b.Status != http.StatusOK || b.Header.Get("Content-Type") != "text/event-stream") {
			t.Errorf("begun %+v", b)
		}
		if len(x.Ends) > 0 {
			equal(t, x.Result().Cause, c.cause, "the cause")
		}
	}
	x := answered(t, []setting{recorded}, nil, completion("Hello", someTokens))
	equal(t, x.Recorded, "", "what is recorded of an answer that is no stream")
}
