package wire

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// With cards on each tool of every recording is a card, in both forms that have them, and
// the answer is what it is without.
func TestCards(t *testing.T) {
	all := hermes.Recordings(t, func(r hermes.Recording) bool { return hermes.Chats(r) && !r.Live() })
	up := upstream.New(t, upstream.Library(all, upstream.ByFrame).Play)
	o := sidecar.Still.With(sidecar.Options{"zero_usage": "pass"})
	plain := client.New(t, sidecar.URL(sidecar.Serve(t, up, o)))
	for _, form := range []string{"envelope", "unnamed"} {
		c := client.New(t, sidecar.URL(sidecar.Serve(t, up, o.With(sidecar.Options{"cards": true, "progress": form}))))
		tools := 0
		for _, r := range all {
			t.Run(form+" of "+r.String(), func(t *testing.T) {
				a, want := c.Of(t).Play(r.String()).Answer(), plain.Of(t).Play(r.String()).Answer()
				cards := a.Cards(t)
				if a.Content != want.Content || a.Reasoning != want.Reasoning || a.Finish != want.Finish || !reflect.DeepEqual(a.Starts, want.Starts) || len(cards) != len(want.Starts) {
					t.Errorf("%d cards in %v, without the option %v", len(cards), a.Names(), want.Names())
				}
				for i, s := range a.Starts {
					if label, cut := strings.CutSuffix(cards[i].Label, "…"); label != s.Label && !(cut && strings.HasPrefix(s.Label, label)) || !strings.HasPrefix(cards[i].Name, s.Emoji) {
						t.Errorf("card %q %q of %q", cards[i].Name, harness.Clip(cards[i].Label), harness.Clip(s.Label))
					}
				}
				tools += len(cards)
			})
		}
		if tools < 50 {
			t.Errorf("%s: %d cards", form, tools)
		}
	}
	off := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Still.With(sidecar.Options{"cards": true, "progress": "bare"}))))
	if body := off.Play("g2-v0.13.0/one_tool").All(); strings.Contains(body, "function_call") {
		t.Errorf("cards in the form bare:\n%s", body)
	}
}

// However a stream breaks off, each call has its output: Open WebUI would run one without,
// and ask Hermes again.
func TestCardsOfBrokenStreams(t *testing.T) {
	begin := func(x *upstream.Exchange) {
		x.Begin("Running.")
		x.Frame(hermes.Running("terminal", "call_1")...)
		x.Frame(hermes.Running("read_file", "call_2")...)
		x.Frame(hermes.Completed("read_file", "call_2")...)
	}
	want := []strict.Card{{Name: "💻 ls -la", Label: "ls -la", Output: "Error: interrupted"}, {Name: "💻 ls -la", Label: "ls -la", Output: "completed"}}
	check := func(t testing.TB, a *strict.Answer, code string) {
		t.Helper()
		if got := a.Cards(t); !reflect.DeepEqual(got, want) {
			t.Errorf("cards %+v in %v", got, a.Names())
		}
		a.CheckError(t, code)
	}
	cards := sidecar.Options{"cards": true}
	for code, end := range map[string]func(x *upstream.Exchange){
		"upstream_aborted":    (*upstream.Exchange).Reset,
		"upstream_incomplete": (*upstream.Exchange).End,
		"agent_crashed": func(x *upstream.Exchange) {
			x.Frame(hermes.Finish("stop", 0))
			x.Finish()
		},
		"empty_answer": func(x *upstream.Exchange) {
			x.Frame(hermes.Finish("stop", 7))
			x.Finish()
		},
	} {
		t.Run(code, func(t *testing.T) {
			base, _ := sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) { begin(x); end(x) }), sidecar.Still.With(cards))
			live := client.New(t, base).Chat()
			check(t, live.Answer(), code)
		})
	}
	silent := upstream.New(t, func(x *upstream.Exchange) { begin(x); x.Silence() })
	t.Run("timeout", func(t *testing.T) {
		harness.AtAnyPace(t, 300*time.Millisecond, func(t testing.TB, d time.Duration) {
			base, _ := sidecar.Serve(t, silent, sidecar.Still.With(cards).With(sidecar.Options{"idle_timeout": d.String()}))
			check(t, client.New(t, base).Chat().Answer(), "upstream_timeout")
		})
	})
	t.Run("drain", func(t *testing.T) {
		conf := sidecar.Config{Sites: []sidecar.Site{{Listen: harness.FreePort(t), Upstream: silent.Addr, Options: sidecar.Still.With(cards).With(sidecar.Options{"drain_timeout": "0s"})}}}
		s := sidecar.Run(t, t.TempDir(), conf)
		live := client.New(t, "http://"+conf.Sites[0].Listen).Chat()
		body := ""
		for !strings.Contains(body, "function_call_output") {
			body += live.Frame().Raw
		}
		s.Terminate()
		check(t, strict.Decode(t, body+live.All()), "shutting_down")
	})
}

// What Open WebUI makes of an answer with cards arrives as the one message that it was.
func TestCardsLeaveHistories(t *testing.T) {
	const (
		ask   = `{"role": "user", "content": "look"}`
		again = `{"role": "user", "content": "and then?"}`
		calls = `"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "💻 ls -la", "arguments": "{\"label\": \"ls -la\"}"}}]}`
		out   = `{"role": "tool", "tool_call_id": "call_1", "content": "completed"}`
		sent  = `{"model": "hermes-agent", "stream": true, "messages": [` + ask + `, {"role": "assistant", "content": "Let me look.", ` + calls + `, ` + out +
			`, {"role": "assistant", "content": "Done."}, ` + again + `]}`
		want = `{"model": "hermes-agent", "stream": true, "messages": [` + ask + `, {"role": "assistant", "content": "Let me look.\n\nDone."}, ` + again + `]}`
	)
	up, got := arrivals(t)
	for history, want := range map[string]string{"heal": want, "keep": sent} {
		base, _ := sidecar.Serve(t, up, sidecar.Options{"history": history}) // whatever cards says now
		for _, chunked := range []bool{false, true} {
			upload(t, base, sent, chunked)
			r := <-got
			if r.body != want {
				t.Errorf("history %s: got\n%s\nwant\n%s", history, r.body, want)
			}
			if length := r.ContentLength; !chunked && length != int64(len(want)) || chunked && length >= 0 {
				t.Errorf("history %s: Content-Length %d", history, length)
			}
		}
	}
}
