package rewrite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// toolFrames returns the data of the tool events of a stream, in order.
func toolFrames(stream string) (datas []string) {
	for _, e := range decode(progressComments(stream)) {
		if strings.Contains(e.data, `"toolCallId"`) {
			datas = append(datas, e.data)
		}
	}
	return datas
}

func TestEnvelopeCarriesTheChunksOwnIDCreatedAndModel(t *testing.T) {
	for name, start := range map[string]string{
		"G0": markerChunk("💻", "ls -la"),
		"G1": g1("terminal", "💻", "ls -la"),
		"G2": g2Start("terminal", "💻", "ls -la", "call_1"),
	} {
		out := repair(role() + start + text("x") + stop())
		fs := toolFrames(out)
		if len(fs) != 2 {
			t.Fatalf("%s: tool events %q", name, fs)
		}
		for i, f := range fs {
			var got, want map[string]any
			if err := json.Unmarshal([]byte(f), &got); err != nil {
				t.Fatal(err)
			}
			status := []string{"running", "completed"}[i]
			if id, ok := got["toolCallId"].(string); !ok || id == "" {
				t.Errorf("%s: no id in %s", name, f)
			}
			members := `{` + envelopeWritten + `,"tool":"terminal","emoji":"💻","label":"ls -la","status":"` + status + `"}`
			if status == "completed" {
				members = `{` + envelopeWritten + `,"tool":"terminal","status":"completed"}`
			}
			if err := json.Unmarshal([]byte(members), &want); err != nil {
				t.Fatal(err)
			}
			delete(got, "toolCallId")
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %s = %v, want %v", name, status, got, want)
			}
			if keys := strings.Join(keysInOrder(t, f), " "); !strings.HasPrefix(keys, envelopeKeys+" tool") {
				t.Errorf("%s: keys = %s", name, keys)
			}
		}
		if n := strings.Count(out, "event: hermes.tool.progress\ndata: {"); n != 2 {
			t.Errorf("%s: %d named events in\n%s", name, n, out)
		}
	}
}

func TestGeneratedEventIsWrittenAsInTheContract(t *testing.T) {
	out := repair(role() + markerChunk("💻", "ls -la") + text("x") + stop())
	id := look(t, out).tools[0].id
	running := "event: hermes.tool.progress\ndata: {" + envelopeWritten + `,"tool":"terminal","emoji":"\ud83d\udcbb","label":"ls -la","toolCallId":"` + id + `","status":"running"}` + "\n\n"
	completed := "event: hermes.tool.progress\ndata: {" + envelopeWritten + `,"tool":"terminal","toolCallId":"` + id + `","status":"completed"}` + "\n\n"
	same(t, out, role()+running+completed+text("x")+stop(), "bytes")
}

func TestProgressForms(t *testing.T) {
	start, end := g2Start("terminal", "💻", "ls", "call_1"), g2End("terminal", "call_1")
	bareStart := `{"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "ls", "toolCallId": "call_1", "status": "running"}`
	bareEnd := `{"tool": "terminal", "toolCallId": "call_1", "status": "completed"}`
	wrapped := func(bare string) string { return "{" + envelopeWritten + "," + bare[1:] }
	tests := []struct {
		form Progress
		want string
	}{
		{ProgressEnvelope, named("hermes.tool.progress", wrapped(bareStart)) + named("hermes.tool.progress", wrapped(bareEnd))},
		{"", named("hermes.tool.progress", wrapped(bareStart)) + named("hermes.tool.progress", wrapped(bareEnd))},
		{ProgressBare, start + end},
		{ProgressUnnamed, "data: " + wrapped(bareStart) + "\n\ndata: " + wrapped(bareEnd) + "\n\n"},
		{ProgressComment, ": hermes.tool.progress " + compact(t, bareStart) + "\n\n: hermes.tool.progress " + compact(t, bareEnd) + "\n\n"},
		{ProgressOff, ""},
	}
	for _, test := range tests {
		want := role() + test.want + text("x") + stop()
		same(t, repairWith(role()+start+end+text("x")+stop(), Options{Progress: test.form}), want, string(test.form)+": bytes")
		p := chatParams
		p.Progress = test.form
		if test.form == "" {
			continue
		}
		for _, configured := range ProgressForms() {
			out, _ := run(role()+start+end+text("x")+stop(), Options{Progress: configured}, p, inOne, CauseEOF)
			same(t, out, want, fmt.Sprintf("%s overriding %s: bytes", test.form, configured))
		}
	}
}

func TestProgressFormsOfMarkers(t *testing.T) {
	in := role() + markerChunk("💻", "ls") + text("x") + stop()
	id := look(t, repair(in)).tools[0].id
	running := `"tool":"terminal","emoji":"\ud83d\udcbb","label":"ls","toolCallId":"` + id + `","status":"running"}`
	completed := `"tool":"terminal","toolCallId":"` + id + `","status":"completed"}`
	for form, want := range map[Progress]string{
		ProgressBare:    named("hermes.tool.progress", "{"+running) + named("hermes.tool.progress", "{"+completed),
		ProgressUnnamed: "data: {" + envelopeWritten + "," + running + "\n\ndata: {" + envelopeWritten + "," + completed + "\n\n",
		ProgressComment: ": hermes.tool.progress {" + running + "\n\n: hermes.tool.progress {" + completed + "\n\n",
		ProgressOff:     "",
	} {
		same(t, repairWith(in, Options{Progress: form}), role()+want+text("x")+stop(), string(form)+": bytes")
	}
}

func TestStatusLineIsForOpenWebUI(t *testing.T) {
	for name, in := range map[string]string{
		"G0": markerChunk("💻", "ls \"-la\""),
		"G1": g1("terminal", "💻", "ls \"-la\""),
		"G2": g2Start("terminal", "💻", "ls \"-la\"", "call_1") + g2End("terminal", "call_1"),
	} {
		for _, form := range []Progress{ProgressEnvelope, ProgressUnnamed} {
			fs := toolFrames(repairWith(role()+in+text("x")+stop(), Options{StatusLine: true, Progress: form}))
			if len(fs) != 2 {
				t.Fatalf("%s: %q", name, fs)
			}
			for i, f := range fs {
				var c struct {
					Event struct {
						Type string
						Data struct {
							Description string
							Done        *bool
						}
					}
				}
				if err := json.Unmarshal([]byte(f), &c); err != nil {
					t.Fatal(err)
				}
				if c.Event.Type != "status" || c.Event.Data.Description != `💻 ls "-la"` || c.Event.Data.Done == nil || *c.Event.Data.Done != (i == 1) {
					t.Errorf("%s, %s: status line of %s", name, form, f)
				}
			}
		}
		for _, form := range []Progress{ProgressBare, ProgressComment} {
			if out := repairWith(role()+in+text("x")+stop(), Options{StatusLine: true, Progress: form}); strings.Contains(out, `"event":`) {
				t.Errorf("%s, %s: a status line in\n%s", name, form, out)
			}
		}
		if out := repair(role() + in + text("x") + stop()); strings.Contains(out, `"description"`) {
			t.Errorf("%s: a status line although it is off", name)
		}
	}
}

func TestG1EventsGainIDAndStatusAndKeepTheRest(t *testing.T) {
	in := named("hermes.tool.progress", `{"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "l\u0073 \"x\"", "more": [1.50, {}]}`)
	out := repairWith(role()+in+text("x")+stop(), Options{Progress: ProgressBare})
	fs := toolFrames(out)
	if len(fs) != 2 {
		t.Fatalf("%q", fs)
	}
	var c wireChunk
	if err := json.Unmarshal([]byte(fs[0]), &c); err != nil {
		t.Fatal(err)
	}
	if c.ToolCallID == nil || c.Status == nil || *c.Status != "running" || *c.Label != `ls "x"` {
		t.Errorf("%s", fs[0])
	}
	fs = toolFrames(repair(role() + in + text("x") + stop()))
	if !strings.Contains(fs[0], `"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "l\u0073 \"x\"", "more": [1.50, {}]`) {
		t.Errorf("upstream's bytes have changed: %s", fs[0])
	}
}

func TestG2EventsKeepTheirIDs(t *testing.T) {
	in := g2Start("terminal", "💻", "a", "tooluse_é\"x") + g2End("terminal", "tooluse_é\"x") + text("x") + stop()
	for _, e := range look(t, repair(in)).tools {
		if e.id != "tooluse_é\"x" {
			t.Errorf("id = %q", e.id)
		}
	}
}

func TestEventsWhoseIDOrStatusIsNullOrEmptyGainThem(t *testing.T) {
	for members, ends := range map[string]bool{
		`"toolCallId": null, "status": null`:          false,
		`"toolCallId": "", "status": ""`:              false,
		`"status": null`:                              false,
		`"toolCallId": "call_9", "status": null`:      false,
		`"toolCallId": "call_9", "status": 5`:         false,
		`"toolCallId": null, "status": "running"`:     false,
		`"status": "running", "status": null`:         false,
		`"toolCallId": "call_9", "status": "running"`: true,
	} {
		in := named("hermes.tool.progress", `{"tool": "terminal", "emoji": "\ud83d\udcbb", `+members+`, "label": "ls", "more": 1}`)
		for _, form := range ProgressForms() {
			out := repairWith(role()+in+text("x")+stop(), Options{Progress: form})
			v := look(t, out)
			v.checkLifecycle(t)
			if form == ProgressOff {
				continue
			}
			if want := "other running completed text finish done"; !ends && v.story() != want {
				t.Errorf("%s, %s: %s", members, form, v.story())
			}
			id := v.tools[0].id
			if id == "" || strings.Contains(members, "call_9") != (id == "call_9") || v.tools[0].label != "ls" || v.tools[0].emoji != "💻" {
				t.Errorf("%s, %s: %+v", members, form, v.tools[0])
			}
			if first := toolFrames(out)[0]; form == ProgressEnvelope && !strings.Contains(first, `"more": 1`) {
				t.Errorf("%s: upstream's bytes have changed: %s", members, first)
			}
			if form == ProgressEnvelope || form == ProgressUnnamed {
				same(t, repairWith(out, Options{Progress: form}), out, "twice and once")
			}
		}
	}
}

// Nobody knows whether a tool has ended that the end of a broken stream closes.
func TestToolsOfBrokenStreamsAreInterrupted(t *testing.T) {
	open := g2Start("terminal", "💻", "ls", "call_1") + g2Start("t", "💻", "b", "call_2") + g2End("t", "call_2")
	failed := `, "error": {"message": "m"}`
	for in, interrupted := range map[string]bool{
		open:                                             true,
		open + doneFrame:                                 true,
		open + finishChunk("error", failed):              true,
		open + finishChunk("error", ""):                  true,
		open + finishChunk("stop", realUsage):            true, // no answer
		open + finishChunk("stop", zeroUsage):            true,
		open + text("x") + finishChunk("length", failed): false,
		open + text("x") + stop():                        false,
		open + text("x") + finishChunk("tool_calls", ""): false,
		open + "data: {\"error\": {\"message\": \"m\"}}\n\n" + finishChunk("stop", realUsage): true,
		open + finishChunkWith(`"content": "x"`, "error", failed):                             true,
		open + finishChunkWith(`"content": "x"`, "stop", realUsage):                           false,
		open + finishChunkWith(`"content": " "`, "stop", realUsage):                           true,
		markerChunk("💻", "ls"):                                     true,
		markerChunk("💻", "ls") + text("x"):                         false, // the text shows that it has ended
		g1("terminal", "💻", "ls") + finishChunk("stop", zeroUsage): true,
	} {
		for _, form := range ProgressForms() {
			out := repairWith(role()+in, Options{Progress: form})
			v := look(t, out)
			v.checkLifecycle(t)
			for _, e := range v.tools {
				want := interrupted && e.status == "completed" && e.id != "call_2" && (form == ProgressEnvelope || form == ProgressUnnamed)
				if e.interrupted != want {
					t.Errorf("%s: %s of %s is interrupted: %t, want %t", form, e.status, e.id, e.interrupted, want)
				}
			}
			if form == ProgressEnvelope || form == ProgressUnnamed {
				same(t, repairWith(out, Options{Progress: form}), out, "twice and once")
			}
		}
	}
	// With zero_usage, text in the finish chunk may be that of a crash, too.
	in := role() + open + finishChunkWith(`"content": "x"`, "stop", zeroUsage)
	for _, e := range look(t, repairWith(in, Options{ZeroUsage: ZeroUsageError})).tools {
		if e.id == "call_1" && e.status == "completed" && !e.interrupted {
			t.Error("the tool of a crash is not interrupted")
		}
	}
}

// finishChunkWith is finishChunk with members of its delta.
func finishChunkWith(members, reason, more string) string {
	return strings.Replace(finishChunk(reason, more), `"delta": {}`, `"delta": {`+members+`}`, 1)
}

func TestBehindDoneOnlyCommentsAndChunksWithoutChoicesPass(t *testing.T) {
	usage := `data: {` + envelopeOfTests + `, "choices": []` + realUsage + "}\n\n"
	for late, passes := range map[string]bool{
		": bye\n\n":                  true,
		usage:                        true,
		doneFrame:                    false,
		text("x"):                    false,
		markerChunk("💻", "ls"):       false,
		g1("terminal", "💻", "ls"):    false,
		g2Start("t", "💻", "l", "1"):  false,
		g2Start("_t", "💻", "l", "1"): false,
		named("hermes.status", `{"kind": "warn"}`):    false,
		named("x", "[1]"):                             false,
		"data: {\"error\": {\"message\": \"m\"}}\n\n": false,
		"data: text\n\n":                              false,
		finishChunk("stop", realUsage):                false,
		text(strings.Repeat("a", 3000)):               false, // larger than max_frame
	} {
		for _, imitations := range ImitationsValues() {
			o := Options{Imitations: imitations, MaxFrame: 1000}
			good := role() + text("x") + stop()
			want := good
			if passes {
				want += late
			}
			same(t, repairWith(good+late, o), want, "bytes behind [DONE]")
			out, sum := run(good+late, o, chatParams, oneByte, CauseEOF)
			same(t, out, want, "bytes behind [DONE], one by one")
			if sum.Tools != 0 || sum.Code != "" {
				t.Errorf("%q: %+v", late, sum)
			}
		}
	}
}

// What tool events have in common is made once, and again when the chunks have
// changed it.
func TestEnvelopeOfToolEventsFollowsTheChunks(t *testing.T) {
	later := strings.NewReplacer("chatcmpl-1", "chatcmpl-2", `"created": 1795164800`, `"created": 1795164801`)
	longer := strings.NewReplacer("chatcmpl-1", "chatcmpl-10000")
	in := role() + markerChunk("💻", "a") + text("x") + g1("terminal", "💻", "b") + later.Replace(text("x")) + g1("terminal", "💻", "c") + g1("terminal", "💻", "d") + longer.Replace(text("x"))
	ids := []string{"chatcmpl-1", "chatcmpl-1", "chatcmpl-1", "chatcmpl-2", "chatcmpl-2", "chatcmpl-2", "chatcmpl-10000", "chatcmpl-10000", ""}
	var calls []string
	for i, f := range toolFrames(repair(in)) {
		var c wireChunk
		if err := json.Unmarshal([]byte(f), &c); err != nil {
			t.Fatal(err)
		}
		if *c.ID != ids[i] || (*c.Created == 1795164801) != (ids[i] == "chatcmpl-2") {
			t.Errorf("event %d has the id %s and the time %d, want %s", i, *c.ID, *c.Created, ids[i])
		}
		if *c.Status == "running" {
			calls = append(calls, *c.ToolCallID)
		}
	}
	if len(calls) != 4 || calls[0][:25] != calls[1][:25] || calls[1][:25] == calls[2][:25] || calls[2][:25] != calls[3][:25] {
		t.Errorf("the tools have the ids %v", calls)
	}
}
