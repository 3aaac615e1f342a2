package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// g2Ends is the event of a tool with the id that has ended with a status.
func g2Ends(tool, id, status string) string {
	return strings.Replace(g2End(tool, id), `"completed"`, `"`+status+`"`, 1)
}

// Upstream's ids come again: Kimi restarts them with every round of the model, and llama.cpp has one for all calls
// (contract section 2). Each tool then has an id of its own, and ends once.
func TestIDsOfToolsThatComeAgain(t *testing.T) {
	const id = "terminal:0"
	start := func(label string) string { return g2Start("terminal", "💻", label, id) }
	end, read := g2End("terminal", id), g2Start("read_file", "📖", "a.go", id)
	long := strings.Repeat("i", 5000)
	for name, c := range map[string]struct {
		in     string
		story  string // without what leaves around the tools
		starts string // the labels
		code   string
	}{
		"one after the other": {start("ls") + end + text("a") + start("make") + end + text("b") + start("diff") + end + text("c") + stop(),
			"running completed text running completed text running completed text", "ls make diff", ""},
		"the same command": {start("ls") + end + start("ls") + end + start("ls") + end + text("c") + stop(),
			"running completed running completed running completed text", "ls ls ls", ""},
		"in parallel, by their labels": {start("a") + start("b") + start("c") + end + end + end + text("x") + stop(),
			"running running running completed completed completed text", "a b c", ""},
		"in parallel, by their names": {start("a.go") + read + end + g2End("read_file", id) + text("x") + stop(),
			"running running completed completed text", "a.go a.go", ""},
		"duplicates": {start("a") + start("a") + start("b") + start("a") + start("b") + end + end + end + text("x") + stop(),
			"running running completed completed text", "a b", ""},
		"a duplicate that says less": {start("a") + named(progressEvent, `{"toolCallId": "terminal:0", "status": "running"}`) + end + text("x") + stop(),
			"running completed text", "a", ""},
		"escapes": {start("a") + strings.ReplaceAll(start("a"), `"a"`, `"\u0061"`) + strings.ReplaceAll(end, "terminal:0", `term\u0069nal:0`) +
			strings.ReplaceAll(start("b"), "terminal:0", `\u0074erminal:0`) + end + text("x") + stop(),
			"running completed running completed text", "a b", ""},
		"an end too many": {start("a") + end + end + start("b") + end + end + text("x") + stop(),
			"running completed running completed text", "a b", ""},
		"a killed backend": {start("a") + end + text("x") + start("b"), "running completed text running completed", "a b", CodeIncomplete},
		"a killed backend, in parallel": {start("a") + start("b") + start("c") + end,
			"running running running completed completed completed", "a b c", CodeIncomplete},
		"a stream that ends on one": {start("a") + end + text("x") + start("b") + end + stop(),
			"running completed text running completed", "a b", CodeEmpty},
		"a stream that ends on one that is open": {start("a") + end + text("x") + start("b") + finishChunk("stop", zeroUsage) + doneFrame,
			"running completed text running completed", "a b", CodeCrashed},
		"without an end of its own": {strings.Replace(start("a"), `, "status": "running"`, "", 1) + text("x") + strings.Replace(start("b"), `, "status": "running"`, "", 1) + text("y") + stop(),
			"running completed text running completed text", "a b", ""},
		"an internal tool": {g2Start("_x", "💭", "h", id) + g2End("_x", id) + start("a") + end + g2Start("_x", "💭", "h", id) + start("b") + end + text("x") + stop(),
			"running completed running completed text", "a b", ""},
		"a long id": {g2Start("terminal", "💻", "a", long) + g2End("terminal", long) + g2Start("terminal", "💻", "b", long) + g2End("terminal", long) + text("x") + stop(),
			"running completed running completed text", "a b", ""},
		"after the finish": {start("a") + end + text("x") + finishChunk("stop", realUsage) + start("b") + end + doneFrame, "running completed text", "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			underAll(t, role()+c.in, func(o Options, out string, v *view) {
				if _, sum := run(role()+c.in, o, chatParams, inOne, CauseEOF); sum.Code != c.code {
					t.Errorf("the code is %q, want %q", sum.Code, c.code)
				}
				if c.code != "" {
					v.checkErrorFinish(t, c.code)
				}
				if o.Progress == ProgressOff {
					return
				}
				var labels []string
				for _, s := range v.starts() {
					labels = append(labels, s.label)
				}
				equal(t, strings.Join(labels, " "), c.starts, "the tools")
				if o.NoCards {
					begins(t, v.story(), "other "+c.story+map[bool]string{true: " error finish", false: " finish"}[len(v.errors) > 0])
				}
			})
		})
	}
	// The first keeps upstream's id and bytes. Only the id of a further one is changed.
	in := turn(start("a"), end, strings.Replace(start("b"), `"status"`, `"more": [1.50], "status"`, 1), end, text("x"))
	for _, form := range []Progress{ProgressBare, ProgressEnvelope, ProgressUnnamed, ProgressComment} {
		v := look(t, repairWith(in, Options{Progress: form}))
		equal(t, v.tools[0].id, id, "the id of the first")
		other := v.tools[2].id
		if other == id || !strings.HasPrefix(other, "call_") || len(other) > 40 {
			t.Errorf("the id of the second is %s", other)
		}
		if form == ProgressBare {
			second := len(role() + start("a") + end)
			same(t, repairWith(in, Options{Progress: form}), in[:second]+strings.ReplaceAll(in[second:], id, other), "bytes")
		}
		if form != ProgressComment {
			contains(t, repairWith(in, Options{Progress: form}), `, "toolCallId": "`+other+`", "more": [1.50], "status": "running"`)
		}
	}
}

// An id that is derived is that of no other tool, even if upstream uses it itself, before or later.
func TestDerivedIDsAreNoOtherTools(t *testing.T) {
	pair := func(id, label string) string { return g2Start("terminal", "💻", label, id) + g2End("terminal", id) }
	derived := look(t, repair(turn(pair("c", "a"), pair("c", "b"), text("x")))).tools[2].id
	third := look(t, repair(turn(pair("c", "a"), pair("c", "b"), pair("c", "d"), text("x")))).tools[4].id
	ours := look(t, repair(turn(g1("terminal", "💻", "ls"), text("x")))).tools[0].id
	for _, in := range []string{
		pair("c", "a") + pair("c", "b") + pair(derived, "d") + pair(derived, "e"),
		pair(derived, "d") + pair("c", "a") + pair("c", "b") + pair("c", "e"),
		pair("c", "a") + pair(derived, "b") + pair("c", "d"),
		pair("c", "a") + pair(third, "b") + pair("c", "d"),
		g2Start("terminal", "💻", "a", "c") + g2Start("terminal", "💻", "b", "c") + g2Start("terminal", "💻", "b", derived) + g2End("terminal", "c") + g2End("terminal", derived) + g2End("terminal", "c"),
		g1("terminal", "💻", "ls") + text("y") + pair(ours, "a") + pair(ours, "b"),
		pair(ours, "a") + g1("terminal", "💻", "ls") + text("y") + pair(ours, "b"),
	} {
		starts := 0
		underAll(t, turn(in, text("x")), func(o Options, _ string, v *view) {
			if o.Progress == ProgressOff {
				return
			}
			if starts = strings.Count(in, `"emoji"`); len(v.starts()) != starts {
				t.Errorf("%d of %d tools start", len(v.starts()), starts)
			}
		})
	}
	// The end of a derived id that upstream has not started is an orphan.
	in := turn(g2Start("terminal", "💻", "a", "c"), g2Start("terminal", "💻", "b", "c"), g2End("terminal", derived), text("x"), g2End("terminal", "c"), g2End("terminal", "c"))
	equal(t, look(t, repair(in)).story(), "other running running text completed completed finish done", "the story")
}

// However many tools have upstream's one id, each has its own, in a memory that is bounded.
func TestOneIDForManyTools(t *testing.T) {
	const many = 3 * maxToolIDs
	for _, o := range []Options{{}, {Progress: ProgressBare}, {NoCards: true}} {
		s := New(&o, chatParams)
		ids := map[string]bool{}
		for i := range many {
			out := s.Feed(nil, []byte(g2Start("terminal", "💻", fmt.Sprint(i), "call")+g2End("terminal", "call")), epoch)
			v := look(t, string(out))
			v.checkLifecycle(t)
			ids[v.tools[0].id] = true
		}
		equal(t, len(ids), many, "ids")
	}
}

// If too many tools are open, or their ends would take too much, those that have been open longest end.
func TestOpenToolsAreBounded(t *testing.T) {
	const starts = 400
	for name, open := range map[string][2]int{
		"t": {maxOpenTools, maxOpenTools}, strings.Repeat("t", 1<<10): {maxOpenBytes >> 11, maxOpenBytes >> 10},
	} {
		s, ended := New(&Options{Progress: ProgressBare}, chatParams), 0
		for i := range starts {
			for _, e := range look(t, string(s.Feed(nil, []byte(g2Start(name, "💻", "l", fmt.Sprint(i))), epoch))).tools {
				if e.status == "completed" {
					equal(t, e.id, fmt.Sprint(ended), "the tool that ends")
					ended++
				}
			}
		}
		if n := starts - ended; n < open[0] || n > open[1] {
			t.Errorf("%d tools with names of %d bytes are open, want %d to %d", n, len(name), open[0], open[1])
		}
	}
}

// Cards, status lines and approvals go by the id that has left.
func TestCardsOfIDsThatComeAgain(t *testing.T) {
	start := func(label string) string { return g2Start("terminal", "💻", label, "c") }
	end := g2End("terminal", "c")
	for _, in := range []string{
		start("a") + end + start("b") + end + text("x") + stop(),
		start("a") + start("b") + end + end + text("x") + stop(),
		start("a") + start("b") + end + text("x") + start("d"),
	} {
		for _, o := range cardOptions() {
			once := repairWith(role()+in, o)
			equal(t, len(cardsOf(t, once)), strings.Count(in, `"emoji"`), "cards")
			same(t, repairWith(once, o), once, "twice and once")
			// A sidecar that has no cards of its own hands them on.
			o.NoCards = true
			same(t, repairWith(once, o), once, "after one with cards")
		}
	}
}

// A large event with the id of another tool does not leave with it: its tool starts, or ends, in an event of the
// sidecar's.
func TestLargeEventsWithIDsThatComeAgain(t *testing.T) {
	large := func(members string) string {
		return named(progressEvent, `{"toolCallId": "c", "tool": "terminal", `+members+`, "x": "`+overLimit+`"}`)
	}
	start, end := g2Start("terminal", "💻", "a", "c"), g2End("terminal", "c")
	for name, c := range map[string]struct {
		in   string
		left int // large events
	}{
		"a start":         {start + end + large(`"emoji": "💻", "status": "running"`) + end + text("x") + stop(), 0},
		"an end":          {start + end + start + large(`"status": "completed"`) + text("x") + stop(), 0},
		"both":            {large(`"status": "running"`) + large(`"status": "completed"`) + large(`"status": "running"`) + large(`"status": "completed"`) + text("x") + stop(), 2},
		"the id behind":   {g2Start("terminal", "💻", overLimit, "c") + end + start + end + text("x") + stop(), 1},
		"a start, killed": {start + end + large(`"status": "running"`), 0},
	} {
		for _, o := range []Options{{}, {Progress: ProgressBare}, {Progress: ProgressUnnamed}, {Progress: ProgressComment}, {Progress: ProgressOff}} {
			if o.Progress == ProgressOff {
				c.left = 0
			}
			out, v, _ := largeLife(t, role()+c.in, o, CauseAborted)
			equal(t, strings.Count(out, overLimit), c.left, name+": large events that leave")
			if o.Progress != ProgressOff {
				equal(t, len(v.starts()), 2, name+": tools")
			}
		}
	}
}
