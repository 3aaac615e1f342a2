package wire

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
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

func TestLifecycle(t *testing.T) {
	const g0 = "\n`💻 ls`\n"
	marker := hermes.One(hermes.Delta("content", g0))
	g1 := []string{"event: hermes.tool.progress", `data: {"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "ls"}`}
	text, space := hermes.One(hermes.Delta("content", "hi")), hermes.One(hermes.Delta("content", " \n"))
	reasoning := hermes.One(hermes.Delta("reasoning_content", "hm"))
	rules := []struct {
		name   string
		frames [][]string
		want   string // the answer's frames, in short
	}{
		{"of a marker: text completes it, before that delta",
			[][]string{marker, text}, "running completed text"},
		{"of a G1 event: text completes it, before that delta",
			[][]string{g1, text}, "running completed text"},
		{"reasoning completes a tool, before that delta",
			[][]string{marker, reasoning, text}, "running completed reasoning text"},
		{"white space completes nothing",
			[][]string{marker, space, text}, "running text completed text"},
		{"starts inside parallel_window run in parallel",
			[][]string{marker, marker, marker, text}, "running running running completed completed completed text"},
		{"G1 starts inside parallel_window run in parallel",
			[][]string{g1, g1, text}, "running running completed completed text"},
		{"on G2 text infers no completion",
			[][]string{hermes.Running("terminal", "c1"), text, hermes.Completed("terminal", "c1"), text}, "running text completed text"},
		{"on G2 a further start infers no completion",
			[][]string{hermes.Running("terminal", "c1"), hermes.Running("terminal", "c2"), hermes.Completed("terminal", "c1"), hermes.Completed("terminal", "c2"), text},
			"running running completed completed text"},
		{"on G2 the end of the stream completes the rest",
			[][]string{hermes.Running("terminal", "c1"), text}, "running text completed"},
		{"a second running of the same id collapses",
			[][]string{hermes.Running("terminal", "c1"), hermes.Running("terminal", "c1"), hermes.Completed("terminal", "c1"), text}, "running completed text"},
		{"a second completed of the same id collapses",
			[][]string{hermes.Running("terminal", "c1"), hermes.Completed("terminal", "c1"), hermes.Completed("terminal", "c1"), text}, "running completed text"},
		{"an orphaned completed is dropped",
			[][]string{hermes.Completed("terminal", "c9"), text}, "text"},
		{"an internal tool of G2 is dropped",
			[][]string{hermes.Running("_thinking", "c1"), hermes.Completed("_thinking", "c1"), text}, "text"},
		{"an internal tool of G1 is dropped",
			[][]string{{"event: hermes.tool.progress", `data: {"tool": "_thinking", "emoji": "\ud83d\udcad", "label": "hm"}`}, text}, "text"},
	}
	var scenes []scene
	for _, r := range rules {
		play := upstream.Lines(slices.Concat([][]string{hermes.One(hermes.Role)}, r.frames, hermes.Good())...)
		scenes = append(scenes, scene{name: r.name, options: sidecar.Still, play: play, names: "chunk " + r.want + " finish stop done"})
	}
	show(t, scenes...)
}

// A start that comes parallel_window after the one before completes it.
func TestLateStartCompletesTheToolBefore(t *testing.T) {
	read := make(chan struct{})
	base, _ := sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Events()
		x.Frame(hermes.Delta("content", "\n`💻 ls`\n"))
		x.Wait(read) // then the sidecar has it, too
		x.Pause(50 * time.Millisecond)
		x.Frame(hermes.Delta("content", "\n`📖 a.txt`\n"))
		x.Frame(hermes.Delta("content", "\n\nok"))
		for _, f := range hermes.Good() {
			x.Frame(f...)
		}
		x.End()
	}), sidecar.Options{"parallel_window": "10ms", "keepalive": 0})
	r := client.New(t, base).Chat()
	start := r.Frame()
	close(read)
	a := strict.Decode(t, start.Raw+r.All())
	a.CheckGood(t)
	if got := strings.Join(a.Names(), " "); got != "running completed running completed text finish stop done" {
		t.Errorf("frames %q", got)
	}
}

// It holds for more tools than any agent runs at once.
func TestLifecycleHoldsForThousandsOfTools(t *testing.T) {
	many := func(frame func(i int) []string) upstream.Script {
		frames := [][]string{hermes.One(hermes.Role)}
		for i := range 3000 {
			frames = append(frames, frame(i))
		}
		return upstream.Lines(append(append(frames, hermes.One(hermes.Delta("content", "hi"))), hermes.Good()...)...)
	}
	scripts := upstream.Router{
		"G0":        many(func(i int) []string { return hermes.One(hermes.Delta("content", fmt.Sprintf("\n`💻 %d`\n", i))) }),
		"G2":        many(func(i int) []string { return hermes.Running("terminal", fmt.Sprint("call_", i)) }),
		"G2 orphan": many(func(i int) []string { return hermes.Completed("terminal", fmt.Sprint("call_", i)) }),
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Still)))
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			a := c.Of(t).Play(name).Answer()
			a.CheckGood(t)
			if (len(a.Starts) == 0) != (name == "G2 orphan") || a.Content != "hi" {
				t.Errorf("%d starts, content %q", len(a.Starts), harness.Clip(a.Content))
			}
			t.Logf("%d of 3000 tools were shown", len(a.Starts))
		})
	}
}

func TestToolNames(t *testing.T) {
	rules := []struct{ emoji, label, tool string }{
		{"💻", "ls", "terminal"},
		{"⚙️", "x", "process"},
		{"🔍", `recall: "cats"`, "session_search"},
		{"🧠", `+memory: "likes cats"`, "memory"},
		{"🧠", `~memory: "likes cats"`, "memory"},
		{"🧠", `-memory: "likes cats"`, "memory"},
		{"🧠", "mixture_of_agents", "mixture_of_agents"},
		{"📚", "skill_view", "skill_view"},
		{"👁️", "browser_vision", "browser_vision"},
		{"🦤", "x", "tool"},
		{"🛰️", "x", "satellite"},
	}
	var frames [][]string
	for _, r := range rules {
		frames = append(frames, hermes.One(hermes.Delta("content", "\n`"+r.emoji+" "+r.label+"`\n")))
	}
	frames = append(frames, hermes.One(hermes.Delta("content", "\n\nok")))
	base, _ := sidecar.Serve(t, upstream.New(t, upstream.Lines(append(frames, hermes.Good()...)...)), sidecar.Still.With(sidecar.Options{"tool": map[string]string{"🛰️": "satellite"}}))
	a := client.New(t, base).Chat().Answer()
	a.CheckGood(t)
	if len(a.Starts) != len(rules) {
		t.Fatalf("%d starts of %d", len(a.Starts), len(rules))
	}
	for i, r := range rules {
		if got := a.Starts[i]; got != (strict.Start{Emoji: r.emoji, Label: r.label, Tool: r.tool}) {
			t.Errorf("start %v, want %v", got, r)
		}
	}
}

// without is a stream without the frames that begin so.
func without(body, prefix string) string {
	var kept strings.Builder
	for _, f := range strings.SplitAfter(body, "\n\n") {
		if !strings.HasPrefix(f, prefix) {
			kept.WriteString(f)
		}
	}
	return kept.String()
}

var forms = []string{"envelope", "bare", "unnamed", "comment", "off"}

// fields are upstream's five members of a tool event, and the two that a completed one has.
var (
	fields      = regexp.MustCompile(`^\{"tool": ?"[a-z_]+", ?"emoji": ?"[^"]+", ?"label": ?".*", ?"toolCallId": ?"[^"]+", ?"status": ?"running"\}$`)
	fieldsEnd   = regexp.MustCompile(`^\{"tool": ?"[a-z_]+", ?"toolCallId": ?"[^"]+", ?"status": ?"completed"\}$`)
	withMembers = regexp.MustCompile(`^\{"id": ?"[^"]+", ?"object": ?"chat.completion.chunk", ?"created": ?\d+, ?"model": ?"hermes-agent", ?` +
		`"choices": ?\[\{"index": ?0, ?"delta": ?\{\}, ?"finish_reason": ?null\}\], ?"tool": ?"[a-z_]+", ?.*"status": ?"(running|completed)"\}$`)
)

// The option says in which form tools leave; the request header overrides it.
func TestProgressForms(t *testing.T) {
	all := []hermes.Recording{
		hermes.Recorded(t, "g0-v0.8.0/seq_tools"), hermes.Recorded(t, "g1-v0.9.0/labels"), hermes.Recorded(t, "g2-v0.13.0/parallel_tools"), hermes.Recorded(t, "g3-v0.20.3/one_tool"),
	}
	up := upstream.New(t, upstream.Library(all, upstream.ByFrame).Play)
	fixed := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Still)))
	name := all[2].String()
	if got, want := fixed.Play(name, "X-Hermes-Tool-Progress", "sometimes").All(), fixed.Play(name).All(); got != want {
		t.Errorf("an unknown value of the header: got\n%s\nwant\n%s", got, want)
	}
	for _, form := range forms {
		c := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Still.With(sidecar.Options{"progress": form}))))
		for _, r := range all {
			t.Run(form+" of "+r.String(), func(t *testing.T) {
				body := c.Of(t).Play(r.String()).All()
				checkForm(t, form, body, r)
				if other := fixed.Of(t).Play(r.String(), "X-Hermes-Tool-Progress", form).All(); other != body {
					t.Errorf("by the request header\n%s\nby the option\n%s", other, body)
				}
			})
		}
	}
}

// checkForm wants every tool event of a body in a form, and as many as the recording has.
func checkForm(t *testing.T, form, body string, r hermes.Recording) {
	t.Helper()
	want := len(strict.Decode(t, string(r.Body)).Starts)
	if strings.HasPrefix(r.Generation, "g0") {
		want = strings.Count(string(r.Body), "\\n`\\u")
	}
	if strings.HasPrefix(r.Generation, "g1") {
		want = strings.Count(string(r.Body), "event: hermes.tool.progress")
	}
	runs, ends := 0, 0
	for _, f := range strings.SplitAfter(body, "\n\n") {
		var data string
		switch form {
		case "envelope", "bare":
			data, _ = strings.CutPrefix(f, "event: hermes.tool.progress\ndata: ")
		case "unnamed":
			data, _ = strings.CutPrefix(f, "data: ")
		case "comment":
			data, _ = strings.CutPrefix(f, ": hermes.tool.progress ")
		}
		if data == f || data == "" {
			if strings.Contains(f, "toolCallId") || strings.HasPrefix(f, "event:") {
				t.Errorf("a tool event in another form: %q", harness.Clip(f))
			}
			continue
		}
		data = strings.TrimSuffix(data, "\n\n")
		if form == "unnamed" && !strings.Contains(data, "toolCallId") {
			continue
		}
		ok := withMembers.MatchString(data)
		if form == "bare" || form == "comment" {
			ok = fields.MatchString(data) || fieldsEnd.MatchString(data)
		}
		if !ok {
			t.Errorf("form %s: %q", form, harness.Clip(f))
		}
		if strings.Contains(data, "completed\"}") {
			ends++
		} else {
			runs++
		}
	}
	if form == "off" {
		want = 0
	}
	if runs != want || ends != want {
		t.Errorf("%d running and %d completed, want %d", runs, ends, want)
	}
}

// status_line adds what Open WebUI shows.
func TestStatusLine(t *testing.T) {
	all := []hermes.Recording{hermes.Recorded(t, "g0-v0.8.0/one_tool"), hermes.Recorded(t, "g2-v0.13.0/one_tool")}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), sidecar.Still.With(sidecar.Options{"status_line": true}))))
	for _, r := range all {
		a := c.Play(r.String()).Answer()
		a.CheckGood(t)
		n := 0
		for _, e := range a.Events {
			if e.Chunk == nil || e.Status == "" {
				continue
			}
			n++
			if e.Event == nil || e.Event.Type != "status" || e.Event.Data.Description != "💻 ls -la" || e.Event.Data.Done != (e.Status == "completed") {
				t.Errorf("%s: no status line in %q", r, e.Raw)
			}
		}
		if n != 2 {
			t.Errorf("%s: %d tool events", r, n)
		}
	}
}

// Other named events get the envelope too, in front of their own members.
func TestStatusEventsGetTheEnvelope(t *testing.T) {
	const own = `"kind": "lifecycle", "text": "\u23f3 Retrying in 2.0s (attempt 1/3)..."}`
	const ask = `"choices": ["once", "deny"], "command": "rm"}`
	const approval = "event: approval.request\ndata: {" + ask + "\n\n"
	status := hermes.Recorded(t, "g4-transcribed/status_wait")
	body := string(status.Body)
	at := strings.Index(body, "event: hermes.status")
	status.Body = []byte(body[:at] + approval + body[at:])
	up := upstream.New(t, upstream.Replay(status, upstream.ByFrame))
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			got := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Still.With(sidecar.Options{"progress": form})))).Chat().All()
			if form != "envelope" && form != "unnamed" {
				if got != string(status.Body) {
					t.Errorf("got\n%s\nwant\n%s", got, status.Body)
				}
				return
			}
			for _, own := range []string{own, strings.Replace(ask, `"choices"`, `"hermes_choices"`, 1)} {
				re := regexp.MustCompile(`data: \{"id": ?"chatcmpl-[^"]+", ?"object": ?"chat.completion.chunk", ?"created": ?1795165921, ?"model": ?"hermes-agent", ?` +
					`"choices": ?\[\{"index": ?0, ?"delta": ?\{\}, ?"finish_reason": ?null\}\], ?` + regexp.QuoteMeta(own) + "\n\n")
				if !re.MatchString(got) || strings.Count(got, own) != 1 {
					t.Errorf("no envelope in front of the event's own members:\n%s", got)
				}
			}
		})
	}
}

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
			receive(t, got).want(t, want, chunked)
		}
	}
}
