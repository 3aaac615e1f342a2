package details

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// maxKept is the number of bytes that are kept of an answer.
const maxKept = 1 << 20

// page is what the rows of an answer say of tool calls. The zero value says nothing.
type page struct {
	calls []call // in order
	kept  int    // how many bytes they take
	block int    // where in calls those of the last message begin
	turn  int    // how many questions of the user came before
	open  bool   // the turn goes on, as far as the rows say
	mixed bool   // the one before went on when it began: a chat that began alike, or what the user said meanwhile

	partial bool    // calls may be missing
	last    float64 // when the last row was stored
	began   float64 // when the stream began, in the seconds of upstream's clock; 0 if unknown
	foreign bool    // the answer is about another session than the one that was asked for: that is so after a compaction
}

// call is a tool call.
type call struct {
	id, name string
	rewrite.ToolDetails
	hasResult bool
	turn      int
	stored    float64 // when, in the seconds of upstream's clock; 0 if unknown
	ended     bool    // its turn has ended, so it is hardly one of a stream that goes on
	foreign   bool    // its row is of another session
}

func (c *call) size() int { return len(c.id) + len(c.name) + len(c.Args) + len(c.Result) + 128 }

// add reads a row of the answer about the session.
func (p *page) add(raw []byte, session string) {
	raw = rewrite.Finite(raw)
	if !gjson.ValidBytes(raw) {
		p.partial = true
		return
	}
	row := gjson.ParseBytes(raw)
	foreign := text(row.Get("session_id")) != session
	stored := row.Get("timestamp").Float()
	switch text(row.Get("role")) {
	case "user":
		p.mixed = p.open && !p.isOld(p.last)
		p.turn++
		p.open = true
		p.block = len(p.calls)
	case "assistant":
		p.block = len(p.calls)
		calls := row.Get("tool_calls").Array()
		for _, c := range calls {
			p.addCall(c, foreign, stored)
		}
		if p.open = len(calls) > 0; !p.open {
			p.endTurn()
		}
	case "tool":
		p.addResult(row)
		p.open = true
	}
	p.last = stored
	p.bound()
}

// endTurn records that the turn has ended so far.
func (p *page) endTurn() {
	for i := len(p.calls) - 1; i >= 0 && p.calls[i].turn == p.turn; i-- {
		p.calls[i].ended = true
	}
}

// addCall adds a call of a message.
func (p *page) addCall(c gjson.Result, foreign bool, stored float64) {
	id, name, args := text(c.Get("id")), text(c.Get("function.name")), c.Get("function.arguments")
	if id == "" || name == "" {
		p.partial = true
		return
	}
	written := args.Raw
	if args.Type == gjson.String {
		written = text(args)
	}
	made := call{id: strings.Clone(id), name: strings.Clone(name), turn: p.turn, foreign: foreign, stored: stored}
	made.Args = rewrite.ToolArgs(written)
	p.calls = append(p.calls, made)
	p.kept += made.size()
}

// addResult adds the result of a call of the last message: results of calls with the same id come in the
// order of these.
func (p *page) addResult(row gjson.Result) {
	id, name, content := text(row.Get("tool_call_id")), text(row.Get("tool_name")), row.Get("content")
	i := slices.IndexFunc(p.calls[p.block:], func(c call) bool { return c.id == id && !c.hasResult })
	if i < 0 {
		return
	}
	c := &p.calls[p.block+i]
	c.hasResult = true
	if name != "" && name != c.name {
		return
	}
	said := content.Raw
	if content.Type == gjson.String || content.Type == gjson.Null {
		said = text(content)
	}
	c.Result, c.Failed = rewrite.ToolResult(said)
	p.kept += len(c.Result)
}

// bound forgets the oldest calls if all take more than maxKept: half of them at once, so that each is moved
// only a few times.
func (p *page) bound() {
	if p.kept <= maxKept {
		return
	}
	n := 0
	for ; p.kept > maxKept/2 && n < len(p.calls); n++ {
		p.kept -= p.calls[n].size()
	}
	p.calls, p.partial = slices.Clone(p.calls[n:]), true
	p.block = max(0, p.block-n)
}

// find returns the details of c: what the call says that it certainly is. Ids may come again, in the turn
// and in earlier ones, and other chats may use the same session. So it is
//
//   - a call whose id is there once;
//   - otherwise the one of the last turn that comes as often with its id and name as c does in the stream,
//     unless what the stream shows of c contradicts its arguments;
//   - but if rows may be missing, or are another session's, one whose id is there once and whose arguments
//     are what the stream shows;
//   - and none whose arguments the stream contradicts of a turn that has ended, of one before the last, or of one
//     that began while another was going on: Hermes up to 0.17 stores a turn when it ends, and then all that it has
//     of an id that comes again is a call of the turn before; and the call of a chat that began alike may be there
//     before this one;
//   - and of such a turn, of one before the last, or with an id that is there twice, none that was stored before
//     the answer began.
func (p *page) find(c rewrite.ToolCall) rewrite.ToolDetails {
	var all, turn []*call
	for i := range p.calls {
		if of := &p.calls[i]; of.id == c.ID {
			if all = append(all, of); of.turn == p.turn && of.name == c.Name {
				turn = append(turn, of)
			}
		}
	}
	var of *call
	again := len(all) > 1
	switch {
	case len(all) == 1 && c.Nth == 0:
		of = all[0]
	case again && c.Nth < len(turn) && !p.partial && !p.foreign && !p.mixed && p.turn > 0 && !turn[c.Nth].foreign:
		of = turn[c.Nth]
	}
	if of == nil || of.name != c.Name || p.isOld(of.stored) && (again || of.ended || of.turn < p.turn) {
		return rewrite.ToolDetails{}
	}
	agrees, knows := agrees(&c, of.Args)
	if !agrees && (again || of.ended || of.turn < p.turn || p.mixed) || (p.partial || p.foreign || of.foreign) && !(agrees && knows) {
		return rewrite.ToolDetails{}
	}
	return of.ToolDetails
}

// isOld reports whether what was stored then was stored before the stream began.
func (p *page) isOld(stored float64) bool { return 0 < stored && stored < p.began }

// agrees reports whether the label of c, which shows the beginning of an argument or says it in words, fits
// the arguments; and whether the label says anything.
func agrees(c *rewrite.ToolCall, args []byte) (agrees, knows bool) {
	label := oneLine(c.Label)
	for _, dots := range []string{"...", "…"} {
		label = strings.TrimSuffix(label, dots)
	}
	if label == "" || label == c.Name {
		return true, false
	}
	var look func(v gjson.Result)
	look = func(v gjson.Result) {
		if v.IsObject() || v.IsArray() {
			v.ForEach(func(_, v gjson.Result) bool { look(v); return !agrees })
			return
		}
		value := oneLine(v.String())
		agrees = agrees || value != "" && (strings.Contains(value, label) || strings.Contains(label, beginning(value)))
	}
	look(gjson.ParseBytes(args))
	return agrees, true
}

// beginning returns as much of an argument as a label shows at least.
func beginning(value string) string {
	const shown = 16
	if r := []rune(value[:min(len(value), 4*shown)]); len(r) > shown {
		return string(r[:shown])
	}
	return value
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// text returns the text of a JSON string, "" for any other value. What follows half of a surrogate pair, gjson would
// lose.
func text(v gjson.Result) (s string) {
	switch {
	case v.Type != gjson.String:
	case !strings.Contains(v.Raw, `\u`):
		s = v.String()
	default:
		_ = json.Unmarshal([]byte(v.Raw), &s) // the row is well formed
	}
	return s
}
