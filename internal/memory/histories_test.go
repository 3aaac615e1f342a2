package memory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/client"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// A chat is one of a client that sends only texts.
type chat struct {
	t      *testing.T
	memory rewrite.Memory
	said   []string // questions and answers
	system string
}

// ask asks a question that has the answer, during which terminal runs with the argument, unless it is
// empty. It returns the arguments in the record of each question of the request, and the messages
// that the agent gets, without the last bracket.
func (c *chat) ask(question, answer, argument string) (records []string, sent string) {
	c.t.Helper()
	c.said = append(c.said, question)
	messages := []map[string]string{{"role": "system", "content": c.system}}
	for i, text := range c.said {
		messages = append(messages, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": text})
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]any{"messages": messages, "stream": true})
	got, healed := rewrite.Healing{Memory: c.memory}.Heal(body.Bytes())
	var request struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal(got, &request); err != nil {
		c.t.Fatal(err)
	}
	for _, m := range request.Messages {
		if m.Role != "user" {
			continue
		}
		record := ""
		if strings.HasPrefix(m.Content, "[Note") {
			record = strings.Split(m.Content, `"`)[1]
		}
		records = append(records, record)
	}
	var ran []rewrite.ToolRun
	if argument != "" {
		ran = []rewrite.ToolRun{{Name: "terminal", Args: `"` + argument + `"`, Ended: "completed"}}
	}
	turn := healed.Turn
	turn.Answer = rewrite.TextOf(answer)
	c.memory.Remember(turn, ran)
	c.said = append(c.said, answer)
	return records, strings.TrimSuffix(string(got), "],\"stream\":true}\n")
}

// wants checks the records of the next request.
func (c *chat) wants(question, answer, argument string, want ...string) (sent string) {
	c.t.Helper()
	got, sent := c.ask(question, answer, argument)
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		c.t.Fatalf("the records are %q, want %q", got, want)
	}
	return sent
}

// Users say "go on" and agents "Done." again and again: each answer has its own record.
func TestTheSameWordsAgain(t *testing.T) {
	c := &chat{t: t, memory: new(Store).Of(client.Named("ada"))}
	want, prefix := []string{""}, ""
	for i := range 100 {
		sent := c.wants("go on", "Done.", fmt.Sprint(i), want...)
		if !strings.HasPrefix(sent, prefix) {
			t.Fatalf("the beginning of request %d has changed", i)
		}
		prefix = sent
		want = append(want, fmt.Sprint(i))
	}
}

// Two chats with the same words but for the first ones have records of their own.
func TestChatsThatGoOnAlike(t *testing.T) {
	memory := new(Store).Of(client.Named("ada"))
	a, b := &chat{t: t, memory: memory}, &chat{t: t, memory: memory}
	for i, c := range []*chat{a, b} {
		c.ask(fmt.Sprint("Edit file ", i), "Done.", fmt.Sprint("edit ", i))
		for n := range 3 {
			c.ask("go on", "Done.", fmt.Sprintf("%d of %d", n, i))
		}
	}
	a.wants("go on", "Done.", "", "", "edit 0", "0 of 0", "1 of 0", "2 of 0")
	b.wants("go on", "Done.", "", "", "edit 1", "0 of 1", "1 of 1", "2 of 1")
	// One more, in which no tool runs.
	c := &chat{t: t, memory: memory}
	c.ask("Read file 2", "Done.", "")
	c.ask("go on", "Done.", "")
	c.wants("go on", "Done.", "", "", "", "")
}

// An answer without tools is no other chat's, whichever was first.
func TestAnswersWithoutTools(t *testing.T) {
	memory := new(Store).Of(client.Named("ada"))
	none := &chat{t: t, memory: memory}
	none.ask("go on", "Done.", "")
	other := &chat{t: t, memory: memory}
	other.ask("Edit", "It is done.", "edit")
	other.ask("go on", "Done.", "more")
	none.wants("go on", "Fine.", "", "", "")
	later := &chat{t: t, memory: memory}
	later.ask("go on", "Done.", "")
	later.wants("go on", "Done.", "", "", "")
	other.wants("go on", "Done.", "", "", "edit", "more")
}

// Questions of which only what the user quotes differs have records of their own.
func TestQuestionsWithQuotes(t *testing.T) {
	memory := new(Store).Of(client.Named("ada"))
	chats := []*chat{{t: t, memory: memory}, {t: t, memory: memory}}
	for i, c := range chats {
		c.ask(fmt.Sprintf("Delete all of <context>%d</context>", i), "Done.", fmt.Sprint(i))
	}
	for i, c := range chats {
		c.wants("go on", "ok", "", "", fmt.Sprint(i))
	}
}

// A system prompt with the time, a history that has lost its beginning, and one that was edited before.
func TestHistoriesThatAreNotTheSame(t *testing.T) {
	c := &chat{t: t, memory: new(Store).Of(client.Named("ada")), system: "It is 12:00."}
	for i := range 4 {
		c.ask("go on", "Done.", fmt.Sprint(i))
	}
	c.system = "It is 12:01."
	c.wants("go on", "Done.", "4", "", "0", "1", "2", "3")
	c.ask("Edit", "Edited.", "edit")
	c.ask("Look", "I see.", "look")
	c.said = c.said[10:]
	c.wants("x", "y", "", "", "edit", "look")
	c.said[0] = "edit"
	c.said = c.said[:4]
	c.wants("x", "y", "", "", "", "look")
}
