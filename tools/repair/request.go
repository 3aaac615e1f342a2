package repair

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// isRequest reports whether the body is that of a request for chat completions.
func isRequest(body []byte) bool {
	body = rewrite.Finite(body)
	return gjson.ValidBytes(body) && gjson.GetBytes(body, "messages").IsArray() && !gjson.GetBytes(body, "choices").Exists()
}

// unknown is a rewrite.Memory that has nothing: what a sidecar has seen of a client's answers is known
// to its process alone.
type unknown struct{}

func (unknown) Empty() bool                              { return true }
func (unknown) Recall(rewrite.Turn) []rewrite.ToolRun    { return nil }
func (unknown) Remember(rewrite.Turn, []rewrite.ToolRun) {}

// healRequest writes what Hermes gets of the body of a request, or explains that.
func (c *repairCommand) healRequest(body []byte) error {
	o := rewrite.Healing{Tools: c.options.Tools}
	if c.memory != memoryOff {
		o.Memory, o.Results = unknown{}, c.memory == memoryResults
	}
	healed, did := o.Heal(bytes.TrimRight(body, "\r\n"))
	if !c.explain {
		if _, err := fmt.Fprintf(c.out, "%s\n", healed); err != nil {
			return fmt.Errorf("writing the request: %w", err)
		}
		return nil
	}
	e := explainer{out: c.out, width: c.width}
	e.printHealed(did)
	e.printRecords(body, healed)
	if c.memory != memoryOff {
		e.printf("a sidecar may add records of answers that it has seen itself, unless the request names a session\n")
	}
	return e.err
}

// printHealed writes what became of the history of a request.
func (e *explainer) printHealed(did rewrite.Healed) {
	if !did.Changed() {
		e.printf("a request whose history needs no change: passes unchanged\n")
		return
	}
	e.printf("a request whose history Hermes gets changed\n")
	for _, of := range []struct {
		n             int
		section, what string
	}{
		{did.Markers, "5", "marker lines removed from the assistant's messages"},
		{did.Cards, "5", "cards removed from them, which Open WebUI sent back as tool calls"},
		{did.Approvals, "5", "paragraphs, codes and tickets of approvals removed from the messages"},
		{did.FromRequest, "8", "user messages that now begin with a record of tools, from the calls in the request"},
	} {
		if of.n > 0 {
			e.printf("          §%s %s: %d\n", of.section, of.what, of.n)
		}
	}
}

// printRecords writes the records, each with the number of its message.
func (e *explainer) printRecords(body, healed []byte) {
	before, n := userTexts(body), 0
	messages := gjson.GetBytes(healed, "messages").Array()
	for i := range messages {
		if messages[i].Get("role").Str != "user" {
			continue
		}
		if n == len(before) {
			return // a message that is there twice
		}
		if record, is := strings.CutSuffix(textOf(messages[i]), before[n]); is && record != "" {
			e.printf("%5d  ~  the user's message begins with\n", i+1)
			e.printLines("       "+signAdded+"  ", []byte(record))
		}
		n++
	}
}

// userTexts returns the texts of the user's messages.
func userTexts(body []byte) (all []string) {
	gjson.GetBytes(body, "messages").ForEach(func(_, m gjson.Result) bool {
		if m.Get("role").Str == "user" {
			all = append(all, textOf(m))
		}
		return true
	})
	return all
}

// textOf returns the text of a message, all parts as one.
func textOf(m gjson.Result) string {
	content := m.Get("content")
	if !content.IsArray() {
		return content.Str
	}
	var text strings.Builder
	for _, part := range content.Array() {
		text.WriteString(part.Get("text").Str)
	}
	return text.String()
}
