package demo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
	"github.com/tidwall/gjson"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

const (
	maxErrorBody = 64 << 10 // how many bytes of a refusal are read
	maxFrame     = 16 << 20 // the size in bytes of the largest frame that is read
)

// client opens a connection for each stream and goes through no proxy.
var client = http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

// ask asks the server at addr for a completion by model, and calls each as readFrames does. It
// returns nil after a clean end, an error with the server's message if the status is not 200, and
// the error of the connection if that broke.
func ask(ctx context.Context, addr, model string, each func(raw []byte, whole bool)) error {
	body := fmt.Sprintf(`{"model": %q, "stream": true, "messages": [{"role": "user", "content": "hello"}]}`, model)
	url := "http://" + addr + "/v1/chat/completions"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // it may say nothing
		if says := gjson.GetBytes(body, "error.message").Str; says != "" {
			return fmt.Errorf("http status %d: %s", resp.StatusCode, says)
		}
		return fmt.Errorf("http status %d", resp.StatusCode)
	}
	return readFrames(resp.Body, each)
}

// readFrames calls each with every frame of the stream r as soon as it is whole, and with the rest
// at the end, which is not whole. It returns nil if the stream ended cleanly, and otherwise the
// error of r.
func readFrames(r io.Reader, each func(raw []byte, whole bool)) error {
	s := sse.Scanner{MaxFrame: maxFrame}
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		s.Feed(buf[:n])
		for unit, raw, ok := s.Next(); ok; unit, raw, ok = s.Next() {
			if unit == sse.UnitRaw {
				return fmt.Errorf("event larger than %d bytes", maxFrame)
			}
			each(raw, true)
		}
		if s.Rest(); err == nil {
			continue
		}
		if torn := s.Tail(); len(torn) > 0 {
			each(torn, false)
		}
		if err == io.EOF {
			return nil
		}
		return err
	}
}

// An event is a parsed frame.
type event struct {
	name         string // "" for none
	data         string
	hasData      bool
	gjson.Result // of the data, nothing if it is no JSON
}

// parseFrame returns the event in the frame raw.
func parseFrame(raw []byte) event {
	var f sse.Frame
	f.Parse(raw)
	e := event{name: string(f.Event), data: string(f.Data), hasData: f.HasData}
	if data := rewrite.Finite(f.Data); gjson.ValidBytes(data) {
		e.Result = gjson.ParseBytes(data)
	}
	return e
}

// str returns the string at a path, "" for none.
func (e event) str(path string) string { return e.Get(path).Str }

// A streamError is an error that the server reports.
type streamError struct {
	Message, Code string // Code is "" for none
}

// toolEvent is the name of the events that say what a tool does.
const toolEvent = "hermes.tool.progress"

// A tool is a tool card of a chat client.
type tool struct {
	id                 string // the tool call id
	name, emoji, label string // what the card shows
	starts, ends       int    // the events for its start and its end: one each in a good stream
	started, ended     time.Time
	interrupted        bool // its end says that it was interrupted
}

// A kind says what a block is.
type kind int

const (
	said    kind = iota // text
	thought             // what the model thought
	status              // what Open WebUI shows above the message
	card                // a tool
)

// A block is a piece of an answer.
type block struct {
	kind kind
	text string // "" for a card
	tool *tool  // of a card
}

// A transcript is what a chat client has made of a stream so far.
type transcript struct {
	// openWebUI says that the client knows cards and status lines instead of
	// Hermes' events, which it ignores.
	openWebUI bool

	raw    []byte       // all that came
	frames int          // how many came
	blocks []block      // the pieces of the answer in their order
	finish string       // the finish reason, "" while there is none
	err    *streamError // the error that the server reported, nil for none
	done   bool         // [DONE] has come
	ended  bool         // the stream is over
	broken error        // what ended the stream when it did not end cleanly
	// faults are the things that no stream may contain, such as data that is
	// no JSON or a tool that ends without having started.
	faults []string
}

// add takes in a frame that arrived at now. A client has to drop one that is not whole.
func (t *transcript) add(raw []byte, whole bool, now time.Time) {
	t.raw, t.frames = append(t.raw, raw...), t.frames+1
	if !whole {
		return
	}
	e := parseFrame(raw)
	switch {
	case !e.hasData:
	case e.data == "[DONE]":
		t.done = true
	case !e.IsObject():
		if !t.openWebUI || e.name == "" {
			t.fault("the data of frame %d is not a JSON object: %s", t.frames, e.data)
		}
	case e.name == toolEvent || e.str("toolCallId") != "":
		if !t.openWebUI || e.Get("item").Exists() {
			t.addTool(e, now)
		}
	default:
		t.addChunk(e)
	}
}

// addChunk takes in a frame that is no tool event.
func (t *transcript) addChunk(e event) {
	if t.openWebUI {
		t.say(status, e.str("event.data.description"))
	}
	if t.err == nil && e.Get("error").IsObject() {
		t.err = &streamError{e.str("error.message"), e.str("error.code")}
	}
	for _, choice := range e.Get("choices").Array() {
		t.say(thought, choice.Get("delta.reasoning_content").Str)
		t.say(said, choice.Get("delta.content").Str)
		t.finish = cmp.Or(choice.Get("finish_reason").Str, t.finish)
	}
}

// end takes in the end of the stream: nil for a clean one.
func (t *transcript) end(err error) { t.ended, t.broken = true, err }

// text joins the texts of all blocks of a kind.
func (t *transcript) text(k kind) string {
	var b strings.Builder
	for _, block := range t.blocks {
		if block.kind == k {
			b.WriteString(block.text)
		}
	}
	return b.String()
}

// tools returns the tool cards.
func (t *transcript) tools() (tools []*tool) {
	for _, block := range t.blocks {
		if block.kind == card {
			tools = append(tools, block.tool)
		}
	}
	return tools
}

// say adds text to the answer: to its last block if that is of the kind k, or as a new block.
func (t *transcript) say(k kind, text string) {
	n := len(t.blocks)
	switch {
	case text == "":
	case n > 0 && t.blocks[n-1].kind == k && k != status:
		t.blocks[n-1].text += text
	default:
		t.blocks = append(t.blocks, block{kind: k, text: text})
	}
}

// fault records a thing that no stream may contain.
func (t *transcript) fault(format string, args ...any) {
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}

// addTool opens or updates a tool card. In an event that completes a tool, interrupted says that
// the stream has failed, so that it is not known whether the tool has ended (contract section 2).
func (t *transcript) addTool(e event, now time.Time) {
	tools, id, status := t.tools(), e.str("toolCallId"), e.str("status")
	if id == "" && status == "" { // before Hermes 0.12 an event is a start, and no more
		id, status = strconv.Itoa(len(tools)), "running"
	}
	i := slices.IndexFunc(tools, func(tool *tool) bool { return tool.id == id })
	switch {
	case status == "running" && i < 0:
		t.blocks = append(t.blocks, block{kind: card, tool: &tool{
			id: id, name: e.str("tool"), emoji: e.str("emoji"), label: e.str("label"), starts: 1, started: now,
		}})
	case status == "running":
		tools[i].starts++
	case status == "completed" && i < 0:
		t.fault("tool %q completed without having started", id)
	case status == "completed":
		if tools[i].ends == 0 {
			tools[i].ended, tools[i].interrupted = now, e.Get("interrupted").Bool()
		}
		tools[i].ends++
	default:
		t.fault("tool %q has the unknown status %q", id, status)
	}
}
