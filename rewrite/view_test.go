package rewrite

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// event is one event of a stream as a client sees it.
type event struct{ name, data string }

// decode reads a stream as WHATWG HTML 9.2.6 says. Comments and what is after
// the last blank line are no events.
func decode(stream string) (events []event) {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	stream = strings.ReplaceAll(stream, "\r", "\n")
	var name string
	var data []string
	for {
		line, rest, ok := strings.Cut(stream, "\n")
		if !ok {
			return events
		}
		stream = rest
		if line == "" {
			if data != nil {
				e := event{name, strings.Join(data, "\n")}
				if e.name == "" {
					e.name = "message"
				}
				events = append(events, e)
			}
			name, data = "", nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			data = append(data, value)
		}
	}
}

// frames cuts a stream with LF framing into its frames, blank lines included.
func frames(stream string) []string {
	fs := strings.SplitAfter(stream, "\n\n")
	return slices.DeleteFunc(fs, func(f string) bool { return f == "" })
}

// wireChunk has the members of a chunk, a tool event or an error that the tests read.
type wireChunk struct {
	ID      *string `json:"id"`
	Object  *string `json:"object"`
	Created *int64  `json:"created"`
	Model   *string `json:"model"`
	Choices []struct {
		Index int    `json:"index"`
		Text  string `json:"text"` // as some backends repeat the content
		Delta *struct {
			Content          *string `json:"content"`
			ReasoningContent *string `json:"reasoning_content"`
			Reasoning        *string `json:"reasoning"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage  json.RawMessage `json:"usage"`
	Error  json.RawMessage `json:"error"`
	Hermes *struct {
		Completed *bool   `json:"completed"`
		Partial   *bool   `json:"partial"`
		Failed    *bool   `json:"failed"`
		Error     *string `json:"error"`
	} `json:"hermes"`
	Tool       *string `json:"tool"`
	Emoji      *string `json:"emoji"`
	Label      *string `json:"label"`
	ToolCallID *string `json:"toolCallId"`
	Status     *string `json:"status"`

	Interrupted bool `json:"interrupted"`

	Type  string `json:"type"` // of an item of a card
	Event struct {
		Data struct {
			Description string `json:"description"`
			Hidden      bool   `json:"hidden"`
		} `json:"data"`
	} `json:"event"`
}

// isForCards reports whether the chunk is there for cards alone: the output of one, or the end of a
// status line.
func (c *wireChunk) isForCards() bool {
	return c.Tool == nil && (c.Type == "response.output_item.added" || c.Event.Data.Hidden)
}

// toolEvent is a tool event as a client sees it.
type toolEvent struct {
	tool, emoji, label, id, status string
	interrupted                    bool
	at                             int // the item in view.order
}

// view is a chat stream as a client sees it.
type view struct {
	content   string
	repeated  string // the content, as a backend repeats it
	reasoning string
	tools     []toolEvent
	errors    []wireError
	finishes  []string
	finish    wireChunk // the last chunk with a finish reason
	done      int
	order     []string // what came, in order: text, reasoning, running, completed, error, finish, done, other; not what is there for cards alone
}

type wireError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    *string `json:"code"`
}

func (e wireError) code() string {
	if e.Code == nil {
		return ""
	}
	return *e.Code
}

// look reads a repaired stream strictly: it must end with a blank line, and
// each event's data must be an object or [DONE].
func look(t testing.TB, stream string) *view {
	t.Helper()
	if stream != "" && !strings.HasSuffix(stream, "\n\n") && !strings.HasSuffix(stream, "\r\n\r\n") && !strings.HasSuffix(stream, "\r\r") {
		t.Errorf("the stream does not end with a blank line: …%q", stream[max(0, len(stream)-60):])
	}
	v := new(view)
	for _, e := range decode(progressComments(stream)) {
		if e.data == "[DONE]" {
			v.done++
			v.item("done")
			continue
		}
		e.data = standardJSON(e.data)
		if !json.Valid([]byte(e.data)) {
			t.Errorf("event %q has data that is no JSON: %q", e.name, e.data)
			continue
		}
		var c wireChunk
		if err := json.Unmarshal([]byte(e.data), &c); err != nil || e.name == "hermes.status" || e.name == "approval.request" || e.name == "other" {
			v.item("other")
			continue
		}
		if !c.isForCards() {
			v.chunk(t, &c)
		}
	}
	return v
}

var progressCommentLine = regexp.MustCompile(`(?m)^: hermes\.tool\.progress (\{.*\})$`)

// progressComments makes events of the tool events that are comments.
func progressComments(stream string) string {
	if !strings.Contains(stream, ": hermes.tool.progress ") {
		return stream // the fuzzers ask often
	}
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream)
	return progressCommentLine.ReplaceAllString(stream, "data: $1\n")
}

func (v *view) item(name string) { v.order = append(v.order, name) }

func (v *view) chunk(t testing.TB, c *wireChunk) {
	t.Helper()
	str := func(p *string) string {
		if p == nil {
			return ""
		}
		return *p
	}
	if c.Tool != nil || c.ToolCallID != nil {
		v.tools = append(v.tools, toolEvent{str(c.Tool), str(c.Emoji), str(c.Label), str(c.ToolCallID), str(c.Status), c.Interrupted, len(v.order)})
		v.item(str(c.Status))
		return
	}
	if len(c.Choices) == 0 && len(c.Error) > 0 {
		var e wireError
		if err := json.Unmarshal(c.Error, &e); err != nil {
			e.Message = string(c.Error)
		}
		v.errors = append(v.errors, e)
		v.item("error")
		return
	}
	said := "other"
	for _, choice := range c.Choices {
		v.repeated += choice.Text
		if choice.Index == 0 && choice.Delta != nil {
			if s := str(choice.Delta.Content); s != "" {
				v.content += s
				said = "text"
			}
			if s := str(choice.Delta.ReasoningContent) + str(choice.Delta.Reasoning); s != "" {
				v.reasoning += s
				said = "reasoning"
			}
		}
		if choice.FinishReason != nil && *choice.FinishReason != "" {
			v.finishes = append(v.finishes, *choice.FinishReason)
			v.finish = *c
			if said != "other" {
				v.item(said)
			}
			said = "finish"
		}
	}
	v.item(said)
}

func (v *view) starts() (ts []toolEvent) {
	for _, e := range v.tools {
		if e.status == "running" {
			ts = append(ts, e)
		}
	}
	return ts
}

// story is the order in words, for comparisons.
func (v *view) story() string { return strings.Join(v.order, " ") }

// checkLifecycle checks the invariants of contract section 2 and the end of section 3.
func (v *view) checkLifecycle(t testing.TB) {
	t.Helper()
	state := map[string]string{}
	finishAt := slices.Index(v.order, "finish")
	for _, e := range v.tools {
		if e.id == "" || strings.HasPrefix(e.tool, "_") || finishAt >= 0 && e.at > finishAt {
			t.Errorf("a tool event without an id, of an internal tool, or after the finish chunk: %+v", e)
		}
		switch {
		case e.status == "running" && state[e.id] == "":
			state[e.id] = e.status
		case (e.status == "completed" || slices.Contains(endedOtherwise, e.status)) && state[e.id] == "running":
			state[e.id] = "completed"
		case e.status == "paused" && state[e.id] == "running": // one that Hermes does not have
		default:
			t.Errorf("tool event %+v comes when the id is %q", e, state[e.id])
		}
	}
	for id, s := range state {
		equal(t, s, "completed", "the end of "+id)
	}
}

// checkErrorFinish checks that the stream ends with an error finish of the code, split or in one chunk.
func (v *view) checkErrorFinish(t testing.TB, code string) {
	t.Helper()
	errors, end := v.errors, "error finish done"
	if len(v.finish.Error) > 0 {
		var e wireError
		if err := json.Unmarshal(v.finish.Error, &e); err != nil {
			t.Errorf("the finish chunk has the error %s: %v", v.finish.Error, err)
		}
		errors, end = append(errors, e), "finish done"
	}
	if len(errors) != 1 || errors[0].code() != code || errors[0].Message == "" {
		t.Errorf("errors = %+v, want one with the code %s", errors, code)
	}
	if len(v.finishes) != 1 || v.finishes[0] != "error" || v.done != 1 || !strings.HasSuffix(v.story(), end) {
		t.Errorf("finish reasons %q, order %s; want one error, … %s", v.finishes, v.story(), end)
	}
	if h := v.finish.Hermes; h == nil || h.Failed == nil || !*h.Failed {
		t.Errorf("the finish chunk has no hermes block that says failed")
	}
}

// A wireItem is an item of a card as Open WebUI reads it.
type wireItem struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Provider  struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"provider_function"`
	Status string       `json:"status"`
	Output []wireOutput `json:"output"`
}

type wireOutput struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// functionName matches the name of a function that the API allows.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// A card has the items of one call, as Open WebUI collects them.
type card struct {
	started, ended wireItem
	says           string // what its output is to say, or its first line if there is a result
	args, result   bool   // the running event has args, the completed one a result
	output         *wireItem
	named          string // the name of the event of the output
}

// cardsOf reads the cards of a stream strictly, in the order in which they begin: each call comes once with
// each of its statuses, then its output, all before the finish chunk.
func cardsOf(t testing.TB, stream string) (all []*card) {
	t.Helper()
	byID := map[string]*card{}
	finished := false
	for _, e := range decode(stream) {
		var c struct {
			wireChunk
			Type  string    `json:"type"`
			Index int       `json:"output_index"`
			Item  *wireItem `json:"item"`

			Args   json.RawMessage `json:"args"`
			Result *string         `json:"result"`
			Failed bool            `json:"failed"`
		}
		if e.data == "[DONE]" || json.Unmarshal([]byte(e.data), &c) != nil {
			continue
		}
		for _, choice := range c.Choices {
			finished = finished || choice.FinishReason != nil && *choice.FinishReason != ""
		}
		if c.ToolCallID != nil && len(*c.ToolCallID) <= maxCardID-2 && c.Event.Data.Description != "" {
			t.Errorf("a tool that has a card has a status line as well: %s", e.data)
		}
		if c.Item == nil {
			if c.Status == nil || c.ToolCallID == nil || len(*c.ToolCallID) > maxCardID-2 {
				continue
			}
			one := byID[*c.ToolCallID]
			if one == nil || !one.args || c.Args != nil || one.ended.ID != "" { // it keeps its arguments
				t.Errorf("a tool event without a card: %s", e.data)
				continue
			}
			one.ended, one.says, one.result = one.started, "completed", c.Result != nil
			if one.ended.Status = "completed"; c.Interrupted {
				one.ended.Status, one.says = "failed", "Error: interrupted"
			}
			continue
		}
		if finished || c.Type != "response.output_item.added" || c.Index != 1000000 || *c.Object != "chat.completion.chunk" || len(c.Choices) != 1 {
			t.Errorf("an item in %s", e.data)
		}
		got, one := *c.Item, byID[c.Item.CallID]
		want, ok := got, false
		switch {
		case got.Type == "function_call" && got.Status == "in_progress":
			ok = one == nil && *c.Status == "running" && functionName.MatchString(got.Provider.Name)
			if c.Args == nil {
				want.Provider.Arguments = got.Arguments
			}
			one = &card{started: got, args: c.Args != nil, named: map[string]string{progressEvent: "hermes.card", "message": "message"}[e.name]}
			byID[got.CallID], all = one, append(all, one)
		case one == nil:
		case got.Type == "function_call":
			otherwise := slices.Contains(endedOtherwise, *c.Status)
			ok = one.ended.ID == "" && (otherwise || *c.Status == "completed")
			want, one.ended, one.says = one.started, got, "completed"
			switch {
			case otherwise:
				one.says = "Error: " + *c.Status
			case c.Interrupted:
				one.says = "Error: interrupted"
			case c.Failed:
				one.says = "Error: failed"
			}
			if one.result = c.Result != nil; c.Args != nil || c.Result != nil {
				want.Arguments, want.Provider.Arguments = got.Arguments, got.Provider.Arguments
			}
			want.Status = map[bool]string{true: "completed", false: "failed"}[one.says == "completed"]
			if c.Failed && one.says == "Error: failed" {
				want.Status = "failed"
			}
		default:
			ok = one.ended.ID != "" && one.output == nil && e.name == one.named && c.Tool == nil && c.Status == nil
			want = wireItem{Type: "function_call_output", ID: "fco_" + got.CallID, CallID: got.CallID, Status: one.ended.Status, Output: []wireOutput{{"input_text", one.says}}}
			one.output = &got
			if len(got.Output) == 1 && one.result && (one.says == "completed" || strings.HasPrefix(got.Output[0].Text, one.says+"\n")) {
				want.Output[0].Text = got.Output[0].Text
			}
		}
		if !ok || !reflect.DeepEqual(got, want) {
			t.Fatalf("an item in %s, want %+v", e.data, want)
		}
	}
	for _, one := range all {
		if one.output == nil {
			t.Errorf("a call without an output: %+v\n%s", *one, stream)
		}
	}
	return all
}

// cardOptions are options with cards.
func cardOptions() (os []Options) {
	for _, p := range cardForms {
		os = append(os, Options{Progress: p}, Options{Progress: p, NoStatusLine: true, Imitations: ImitationsTrust})
	}
	return os
}

// label returns the label in the arguments of a call.
func (i *wireItem) label(t testing.TB) string {
	t.Helper()
	var args map[string]string
	if err := json.Unmarshal([]byte(i.Arguments), &args); err != nil || len(args) != 1 || !strings.HasPrefix(i.Arguments, `{"label": "`) {
		t.Errorf("arguments %q: %v", i.Arguments, err)
	}
	return args["label"]
}
