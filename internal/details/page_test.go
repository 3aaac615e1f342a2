package details

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// row returns a row of the session s.
func row(role, members string) string {
	return `{"id": 7, "session_id": "s", "role": "` + role + `", ` + members + `, "timestamp": 1.5}`
}

// calls returns a message with calls: id, name, arguments, and again.
func calls(of ...string) string {
	var all []string
	for i := 0; i+2 < len(of); i += 3 {
		all = append(all, fmt.Sprintf(`{"id": %q, "type": "function", "function": {"name": %q, "arguments": %q}}`, of[i], of[i+1], of[i+2]))
	}
	return row("assistant", `"content": "", "tool_calls": [`+strings.Join(all, ", ")+`]`)
}

func result(id, name, text string) string {
	return row("tool", fmt.Sprintf(`"content": %q, "tool_call_id": %q, "tool_name": %q`, text, id, name))
}

// end is the row of an answer after which a turn is over.
var end = row("assistant", `"content": "done"`)

func user() string { return row("user", `"content": "hi {\"]"`) }

// list returns an answer of Hermes'.
func list(rows ...string) string {
	return `{"object": "list", "session_id": "s", "data": [` + strings.Join(rows, ", ") + `], "pagination": {"limit": 64}}`
}

// read reads an answer in parts of at most most bytes.
func read(answer string, most int) (page, error) {
	r := newRows("s", 0)
	for len(answer) > 0 {
		n := min(len(answer), 1+rand.IntN(most))
		if _, err := r.Write([]byte(answer[:n])); err != nil {
			return page{}, err
		}
		answer = answer[n:]
	}
	return r.end()
}

// known returns what is known of the n-th call, from 0 on, with the id, name and label: args, result.
func known(t *testing.T, answer, id, name, label string, n int) string {
	t.Helper()
	of := ""
	for _, most := range []int{1, 7, len(answer)} {
		p, err := read(answer, most)
		if err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		d := p.find(rewrite.ToolCall{ID: id, Name: name, Label: label, Nth: n})
		said := fmt.Sprintf("%s %s", d.Args, d.Result)
		if d.Failed {
			said += " failed"
		}
		if of != "" && of != said {
			t.Fatalf("it depends on the cut: %s, %s", of, said)
		}
		of = said
	}
	return of
}

const nothing = " "

// A wrong row is worse than none.
func TestWhichCallAToolIs(t *testing.T) {
	const a, b = `{"command":"ls /a"}`, `{"command":"ls /b"}`
	once := list(user(), calls("c1", "terminal", a), result("c1", "terminal", "one"))
	again := list(user(), calls("x", "terminal", a), result("x", "terminal", "old"), row("assistant", `"content": "done"`), user(),
		calls("x", "terminal", a), result("x", "terminal", "one"), calls("x", "read_file", `{"path":"p"}`), result("x", "read_file", "two"), calls("x", "terminal", b), result("x", "terminal", "three"))
	for what, c := range map[string]struct {
		answer, id, name, label string
		nth                     int
		want                    string
	}{
		"its arguments and its result": {once, "c1", "terminal", "anything", 0, a + ` "one"`},
		"another id":                   {once, "c2", "terminal", "", 0, nothing},
		"another name":                 {once, "c1", "read_file", "", 0, nothing},
		"once more than is stored":     {once, "c1", "terminal", "", 1, nothing},
		"no result yet":                {list(user(), calls("c1", "terminal", a)), "c1", "terminal", "", 0, a + " "},
		"a failed one":                 {list(user(), calls("c1", "t", `{}`), result("c1", "t", `{"exit_code": 3}`)), "c1", "t", "", 0, `{} "{\"exit_code\": 3}" failed`},
		"parallel, in any order":       {list(user(), calls("c1", "t", `{"n":1}`, "c2", "t", `{"n":2}`), result("c2", "t", "two"), result("c1", "t", "one")), "c2", "t", "", 0, `{"n":2} "two"`},
		"of an earlier turn":           {list(user(), calls("c1", "t", `{}`), result("c1", "t", "one"), user()), "c1", "t", "", 0, `{} "one"`},

		"an id that comes again":                   {again, "x", "terminal", "ls /a", 0, a + ` "one"`},
		"its second tool of the name":              {again, "x", "terminal", "ls /b", 1, b + ` "three"`},
		"its only tool of the name":                {again, "x", "read_file", "Reading p", 0, `{"path":"p"} "two"`},
		"a label that is cut":                      {again, "x", "terminal", "ls /b...", 1, b + ` "three"`},
		"a label of another call":                  {again, "x", "terminal", "ls /a", 1, nothing},
		"a label of a call that is not stored yet": {again, "x", "terminal", "rm -rf /", 0, nothing},
		"no label":                     {again, "x", "terminal", "", 1, b + ` "three"`},
		"once more":                    {again, "x", "terminal", "ls /b", 2, nothing},
		"again, only in earlier turns": {list(user(), calls("x", "t", a), user(), calls("x", "t", a), user()), "x", "t", "ls /a", 0, nothing},
		"parallel with one id, the first has a result": {list(user(), calls("x", "t", a, "x", "t", b), result("x", "t", "one")), "x", "t", "ls /b", 1, b + " "},
		"parallel with one id":                         {list(user(), calls("x", "t", a, "x", "t", b), result("x", "t", "one"), result("x", "t", "two")), "x", "t", "ls /b", 1, b + ` "two"`},
		"the result of another tool":                   {list(user(), calls("c1", "t", a), result("c1", "u", "one")), "c1", "t", "", 0, a + " "},
		"the end of a page, the same id twice":         {list(calls("x", "t", a), calls("x", "t", b)), "x", "t", "ls /b", 1, nothing},
		"the end of a page":                            {list(calls("c1", "t", a), result("c1", "t", "one")), "c1", "t", "", 0, a + ` "one"`},

		"of a turn that has ended":                   {list(user(), calls("x", "t", a), result("x", "t", "one"), row("assistant", `"content": "done", "tool_calls": null`)), "x", "t", "ls /a", 0, a + ` "one"`},
		"of a turn that has ended, any label":        {list(user(), calls("x", "t", a), result("x", "t", "one"), row("assistant", `"content": "done", "tool_calls": null`)), "x", "t", "", 0, a + ` "one"`},
		"of a turn that has ended, another label":    {list(user(), calls("x", "t", a), result("x", "t", "one"), row("assistant", `"content": "done"`)), "x", "t", "ls /b", 0, nothing},
		"of the turn after one that has ended":       {list(user(), calls("x", "t", a), result("x", "t", "one"), row("assistant", `"content": "done"`), user(), calls("x", "t", b)), "x", "t", "", 0, b + " "},
		"of a turn that goes on after another's end": {list(user(), calls("c1", "t", a), user(), calls("c2", "t", b), row("assistant", `"content": "done"`)), "c1", "t", "", 0, a + " "},

		"of a chat that began alike, another label": {list(user(), calls("x", "t", a), user()), "x", "t", "ls /b", 0, nothing},
		"of one that goes on, another label":        {list(user(), user(), calls("x", "t", a)), "x", "t", "ls /b", 0, nothing},
		"of one that goes on, its label":            {list(user(), user(), calls("x", "t", a)), "x", "t", "ls /a", 0, a + " "},

		"of several turns at once":                  {list(user(), calls("x", "t", a), user(), calls("x", "t", a), result("x", "t", "theirs")), "x", "t", "ls /a", 0, nothing},
		"behind what a user said during the turn":   {list(user(), calls("x", "t", a), result("x", "t", "one"), user(), calls("x", "t", a, "x", "t", a), result("x", "t", "two")), "x", "t", "ls /a", 1, nothing},
		"of the turn before, which is all there is": {list(user(), calls("x", "t", a, "x", "t", a), result("x", "t", "old"), row("assistant", `"content": "done"`)), "x", "t", "ls /b", 0, nothing},

		"another session":                     {strings.ReplaceAll(once, `"session_id": "s"`, `"session_id": "z"`), "c1", "terminal", "", 0, nothing},
		"another session, another label":      {strings.ReplaceAll(once, `"session_id": "s"`, `"session_id": "z"`), "c1", "terminal", "rm", 0, nothing},
		"a session after a compaction":        {strings.Replace(once, `"session_id": "s"`, `"session_id": "z"`, 1), "c1", "terminal", "ls /a", 0, a + ` "one"`},
		"another session in an id's rows":     {list(user(), calls("x", "t", a), strings.Replace(calls("x", "t", b), `"session_id": "s"`, `"session_id": "z"`, 1)), "x", "t", "ls /b", 1, nothing},
		"ids and names that are no strings":   {list(user(), row("assistant", `"tool_calls": [{"id": 1, "function": {"name": "t", "arguments": "{}"}}, {"id": "c1", "function": []}, 7, "c1"]`)), "c1", "t", "", 0, nothing},
		"a row that is none":                  {list(user(), "7", `"c1"`, `["c1"]`, "null", calls("c1", "t", a)), "c1", "t", "", 0, a + " "},
		"an object in another array":          {strings.Replace(list(user()), `"pagination"`, `"more": [`+calls("c1", "t", a)+`], "p"`, 1), "c1", "t", "", 0, nothing},
		"arguments that are an object":        {list(user(), row("assistant", `"tool_calls": [{"id": "c1", "function": {"name": "t", "arguments": {"a": [1]}}}]`)), "c1", "t", "", 0, `{"a":[1]} `},
		"content that is a list":              {list(user(), calls("c1", "t", a), row("tool", `"tool_call_id": "c1", "content": [{"type": "text", "text": "hi"}]`)), "c1", "t", "", 0, a + ` "[{\"type\": \"text\", \"text\": \"hi\"}]"`},
		"content that is null":                {list(user(), calls("c1", "t", a), row("tool", `"tool_call_id": "c1", "content": null`)), "c1", "t", "", 0, a + ` ""`},
		"NaN, escapes, half of a surrogate":   {list(user(), row("assistant", `"t\u006fol_calls": [{"id": "c\u0031", "function": {"name": "t", "arguments": "{\"a\": \"\\ud800 \ud83d\"}"}}], "logprob": NaN`)), "c1", "t", "", 0, "{\"a\":\"\ufffd \ufffd\"} "},
		"braces and quotes in texts":          {list(user(), calls("c1", "t", `{"a":"}]\"{["}`), result("c1", "t", `\"}]`)), "c1", "t", "", 0, `{"a":"}]\"{["} "\\\"}]"`},
		"half of a surrogate, then an escape": {list(user(), calls("c1", "t", a), row("tool", `"tool_call_id": "c1", "content": "\ud83d\u00e9 \ud83d\ud83d\udcbb\udcbb"`)), "c1", "t", "", 0, a + " \"\ufffdé \ufffd💻\ufffd\""},
		"a row that is too large":             {list(user(), row("user", `"content": "`+strings.Repeat("x", maxRow)+`"`), calls("c1", "t", a)), "c1", "t", "ls /a", 0, a + " "},
		"a row that is too large, any label":  {list(user(), row("user", `"content": "`+strings.Repeat("x", maxRow)+`"`), calls("c1", "t", a)), "c1", "t", "", 0, nothing},
	} {
		if got := known(t, c.answer, c.id, c.name, c.label, c.nth); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

func TestAnswersThatAreNotHermes(t *testing.T) {
	deep := strings.Repeat("[", maxRowDepth+1)
	for answer, want := range map[string]error{
		``: errShape, `[]`: errShape, `{}`: errShape, `null`: errShape, `<html>`: errShape, "\x00\xff": errShape, list(user())[:40]: errShape, list() + "}": errShape,
		`{"object": "list", "data": []}`: errShape, `{"object": "list", "session_id": 7, "data": []}`: errShape, `{"object": "list", "session_id": "s", "data": {}}`: errShape,
		`{"object": "error", "session_id": "s", "data": []}`: errShape, deep: errShape, list(row("user", `"content": `+deep)): errShape,
		`{"object": "` + strings.Repeat("x", maxAround):                    errShape,
		list(row("user", `"content": "`+strings.Repeat("x", maxPage)+`"`)): errTooLarge,
		list(): nil, strings.ReplaceAll(list(user()), " ", "\n\t "): nil,
	} {
		for _, most := range []int{1, 4096} {
			if most == 1 && len(answer) > maxRow {
				continue
			}
			if _, err := read(answer, most); !errors.Is(err, want) {
				t.Errorf("%.60q: %v, want %v", answer, err, want)
			}
		}
	}
}

// What is kept of an answer is bounded, and what is forgotten is not taken for something else.
func TestWhatIsKeptOfAnAnswer(t *testing.T) {
	rows := []string{user()}
	for i := range 200 {
		rows = append(rows, calls(fmt.Sprint("c", i), "t", `{"a":"`+strings.Repeat("x", 9000)+`"}`), result(fmt.Sprint("c", i), "t", strings.Repeat("y", 9000)))
	}
	p, err := read(list(rows...), 5000)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for i := range p.calls {
		size += p.calls[i].size()
	}
	if size > maxKept || size < maxKept/4 || size != p.kept {
		t.Errorf("%d bytes are kept, %d counted", size, p.kept)
	}
	last := rewrite.ToolCall{ID: "c199", Name: "t", Label: "xxx"}
	if d := p.find(last); d.Args == nil || d.Result == nil {
		t.Error("the newest call is forgotten")
	}
	if d := p.find(rewrite.ToolCall{ID: "c0", Name: "t", Label: "xxx"}); d.Args != nil {
		t.Error("the oldest call is kept")
	}
}

// An upstream that has refused is not asked for ten minutes; it is told of once, and forgotten when it answers.
func TestUpstreamsThatAreNotAsked(t *testing.T) {
	var u Upstreams
	now := time.Unix(1e9, 0)
	step := func(what string, outcome Outcome, tells, then bool) {
		t.Helper()
		if tell := u.note("a", outcome, now); tell != tells {
			t.Errorf("%s: it is told: %v", what, tell)
		}
		if may := u.mayAsk("a", now); may != then {
			t.Errorf("%s: it may be asked: %v", what, may)
		}
	}
	step("an answer", Answered, false, true)
	step("a failure", Failed, false, true)
	step("late", Late, false, true)
	step("an answer in between", Answered, false, true)
	for _, o := range []Outcome{Lost, Unreadable} {
		step("a failure", o, false, true)
	}
	step("the third in a row", Late, true, false)
	now = now.Add(pause - 1)
	if u.mayAsk("a", now) || !u.mayAsk("b", now) {
		t.Error("within ten minutes")
	}
	now = now.Add(1)
	if !u.mayAsk("a", now) {
		t.Error("after ten minutes")
	}
	step("a refusal, known already", Refused, false, false)
	now = now.Add(pause)
	step("an answer", Answered, false, true)
	step("too large", TooLarge, true, false)
	for i := range 2 * maxUpstreams {
		u.note(fmt.Sprint(i), Refused, now)
	}
	if len(u.of) > maxUpstreams {
		t.Errorf("%d upstreams are remembered", len(u.of))
	}
}

// TestCallsOfEarlierTurns: what was stored before the answer began is another turn's. Hermes 0.16 has nothing
// else until a turn ends, and a turn that was interrupted has no end.
func TestCallsOfEarlierTurns(t *testing.T) {
	const a = `{"command":"ls /a"}`
	turn := []string{user(), calls("x", "t", a), result("x", "t", "old")}
	twice := []string{user(), calls("x", "t", a, "x", "t", a), result("x", "t", "old"), result("x", "t", "older"), end}
	at := func(seconds string, rows ...string) (all []string) {
		for _, r := range rows {
			all = append(all, strings.Replace(r, `"timestamp": 1.5`, `"timestamp": `+seconds, 1))
		}
		return all
	}
	for what, c := range map[string]struct {
		rows []string
		nth  int
		want string
	}{
		"the turn before is all":              {at("999.5", append(turn, end)...), 0, ""},
		"the turn before is all, an id twice": {at("999.5", twice...), 1, ""},
		"a turn that has ended just now":      {at("1000.5", append(turn, end)...), 0, a},
		"with an id twice":                    {at("1000.5", twice...), 1, a},
		"a turn before, which has not ended":  {append(at("999.5", turn...), at("1000.5", user())...), 0, ""},
		"after one that has not ended":        {slices.Concat(at("999.5", turn...), at("1000.5", turn...)), 0, a},
		"of two turns at once":                {slices.Concat(at("1000.1", turn...), at("1000.5", turn...)), 0, ""},
		"no time that can be read":            {at(`"now"`, append(turn, end)...), 0, a},
	} {
		r := newRows("s", 1000)
		if _, err := r.Write([]byte(list(c.rows...))); err != nil {
			t.Fatal(err)
		}
		p, err := r.end()
		if d := p.find(rewrite.ToolCall{ID: "x", Name: "t", Label: "ls /a", Nth: c.nth}); err != nil || string(d.Args) != c.want {
			t.Errorf("%s: %s, %v", what, d.Args, err)
		}
	}
}

// TestSpaceOfArgumentsIsNotKept: a model may write a lot of it.
func TestSpaceOfArgumentsIsNotKept(t *testing.T) {
	var rows []string
	for i := range 3 {
		rows = append(rows, calls(fmt.Sprint(i), "t", "{"+strings.Repeat(" ", maxRow-1000)+"}"))
	}
	p, err := read(list(rows...), 4096)
	if err != nil || len(p.calls) != 3 {
		t.Fatal(err)
	}
	for _, c := range p.calls {
		if cap(c.Args) > 1000 {
			t.Errorf("%d bytes are kept for %s", cap(c.Args), c.Args)
		}
	}
}
