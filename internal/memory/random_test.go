package memory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/internal/client"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestRandomHistories compares the records in random requests with a model of the rule (contract section
// 8): clients ask, edit, regenerate, branch, cut and copy chats. What a record looks like, and which calls a
// request has itself, is tested in package rewrite. HERMES_MEMORY_HISTORIES is how many requests there are.
func TestRandomHistories(t *testing.T) {
	alone.NotUnderRace(t)
	n := 3000
	if s := os.Getenv("HERMES_MEMORY_HISTORIES"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	records := 0
	for seed := uint64(0); n > 0; seed++ {
		w := &world{t: t, r: rand.New(rand.NewPCG(seed, 8)), store: new(Store)}
		for range 60 {
			w.step()
			if n--; t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		records += w.records
	}
	if t.Logf("%d records", records); records == 0 {
		t.Error("there was no record")
	}
}

// A world has some clients with some chats.
type world struct {
	t       *testing.T
	r       *rand.Rand
	store   *Store
	chats   [3][][]turn // of each client
	seen    []answered  // the answers, as they came
	tools   int
	records int
}

// turn is a question and its answer as a client keeps them.
type turn struct{ question, answer string }

// answered is what a Memory is to know of an answer.
type answered struct {
	client                   int
	past                     string // the messages up to the question
	before, question, answer string // without white space; "-" for none
	lines                    string // of its record
}

// message is a message of a request.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

var (
	questions = []string{
		"go on", "again?", "approve", "é \"q\"\n{}", "Delete all of <context>1</context>", "Delete all of <context>2</context>",
	}
	answers = []string{"Done.", "Done. \n", "ok", "`💻 no marker`, is it", "\u00a0It is\n\n```\ncode\n```", record("- terminal: completed\n")}
)

// record returns the record with the lines, "" for none.
func record(lines string) string {
	if lines == "" {
		return ""
	}
	return "[Note by the operator of this chat; the user did not write it. During the answer above, these tools ran:]\n" +
		lines + "[End of the note. What follows is the user's.]\n\n"
}

// step sends a request in one of the chats, and keeps the answer.
func (w *world) step() {
	r := w.r
	c := r.IntN(len(w.chats))
	if len(w.chats[c]) == 0 || r.IntN(6) == 0 {
		w.chats[c] = append(w.chats[c], nil)
	}
	chat := &w.chats[c][r.IntN(len(w.chats[c]))]
	switch n := len(*chat); {
	case n == 0:
	case r.IntN(8) == 0: // the chat goes on from an earlier turn, or its last answer is made again
		*chat = (*chat)[:r.IntN(n)]
	case r.IntN(12) == 0: // a copy goes on
		w.chats[c] = append(w.chats[c], slices.Clone(*chat))
	case r.IntN(12) == 0:
		(*chat)[r.IntN(n)].question = pick(r, questions...)
	case r.IntN(12) == 0:
		(*chat)[r.IntN(n)].answer = strings.TrimSpace(pick(r, answers...))
	case r.IntN(12) == 0: // twice
		i := r.IntN(n)
		*chat = append((*chat)[:i+1:i+1], (*chat)[i:]...)
	}
	shown := *chat
	if len(shown) > 0 && r.IntN(5) == 0 { // the history is cut
		shown = shown[r.IntN(len(shown)):]
	}
	next := turn{question: pick(r, questions...)}
	next.answer = w.asks(c, shown, next.question)
	*chat = append(*chat, next)
}

// asks sends a question after the turns, checks what becomes of the request, and returns the agent's answer as its
// client keeps it.
func (w *world) asks(c int, shown []turn, question string) string {
	messages := []message{{"system", pick(w.r, "It is 12:00.", "It is 12:01.")}}
	want := slices.Clone(messages) // what the agent is to get
	lines, before := "", "-"
	says := func(text string) {
		messages, want = append(messages, message{"user", text}), append(want, message{"user", record(lines) + text})
		lines = ""
	}
	for i, s := range shown {
		if w.r.IntN(12) == 0 { // a question that was never answered
			says("lost")
		}
		asked := "-" // the history may begin with an answer
		if i > 0 || len(messages) > 1 || w.r.IntN(8) > 0 {
			says(s.question)
			asked = ownWords(s.question)
		}
		lines, before = w.known(answered{c, fmt.Sprint(messages[1:]), before, asked, bare(s.answer), ""}), bare(s.answer)
		messages, want = append(messages, message{"assistant", s.answer}), append(want, message{"assistant", s.answer})
	}
	if w.r.IntN(8) == 0 { // Open WebUI sends what it has found with the question, but not in later requests
		says("### Task:\nAnswer.\n<context>\n<source id=\"1\">x</source>\n</context>\n" + question)
	} else {
		says(question)
	}

	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // as other languages write it
	_ = e.Encode(map[string]any{"messages": messages, "stream": true})
	memory := w.store.Of(client.Named(fmt.Sprint(c)))
	healed, did := rewrite.Healing{Memory: memory}.Heal(body.Bytes())
	var got struct{ Messages []message }
	if err := json.Unmarshal(healed, &got); err != nil || len(got.Messages) != len(want) {
		w.t.Fatalf("client %d: %v in %s", c, err, healed)
	}
	for i := range want {
		if got.Messages[i] != want[i] {
			w.t.Errorf("client %d, message %d of\n%s\nis\n%q\nwant\n%q", c, i, healed, got.Messages[i], want[i])
		}
	}
	w.records += did.Recalled()

	answer := pick(w.r, answers...)
	var tools []rewrite.ToolRun
	for range w.r.IntN(3) {
		w.tools++
		tools = append(tools, rewrite.ToolRun{Name: "terminal", Args: fmt.Sprintf("%q", fmt.Sprint(w.tools)), Ended: "completed"})
		lines += fmt.Sprintf("- terminal \"%d\": completed\n", w.tools)
	}
	did.Turn.Answer = rewrite.TextOf(answer)
	memory.Remember(did.Turn, tools)
	w.seen = append(w.seen, answered{c, fmt.Sprint(messages[1:]), before, ownWords(question), bare(answer), lines})
	return strings.TrimSpace(answer)
}

// known returns the lines of the record of an answer by the rule.
func (w *world) known(a answered) string {
	last := map[string]answered{} // by the past
	for _, s := range w.seen {
		if s.client == a.client && s.question == a.question && s.answer == a.answer {
			last[s.past] = s
		}
	}
	if s, ok := last[a.past]; ok {
		return s.lines
	}
	var all, alike []string
	for _, s := range last {
		if all = append(all, s.lines); s.before == a.before {
			alike = append(alike, s.lines)
		}
	}
	if len(alike) == 0 && a.before == "-" {
		alike = all
	}
	if len(alike) == 1 {
		return alike[0]
	}
	return ""
}

// bare returns a text without white space.
func bare(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// ownWords returns what the user has written of a question, without white space: what is in front of it is what
// Open WebUI has found.
func ownWords(question string) string {
	_, own, found := strings.Cut(question, "</context>")
	if !found {
		own = question
	}
	return bare(own)
}
