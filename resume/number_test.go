package resume

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// number gives ids to a stream that comes in these pieces.
func number(pieces ...string) (out string, ends []int) {
	c := newNumberer("x", 0)
	var all []byte
	for _, p := range pieces {
		b, e := c.add(nil, nil, []byte(p))
		for _, end := range e {
			ends = append(ends, len(all)+end)
		}
		all = append(all, b...)
	}
	return string(all), ends
}

func TestEventsAreNumbered(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "",
		"data: a\n\n":                       "data: a\nid: x/1\n\n",
		"data: a\n\ndata: b\n\n":            "data: a\nid: x/1\n\ndata: b\nid: x/2\n\n",
		"data: a\r\n\r\n":                   "data: a\r\nid: x/1\r\n\r\n",
		"data: a\r\rdata: b\r\r":            "data: a\rid: x/1\r\rdata: b\rid: x/2\r\r",
		"data: a\r\n\ndata: b\n\r":          "data: a\r\nid: x/1\r\n\ndata: b\nid: x/2\n\n",
		"data: a\n\r\ndata: b\r\r\n":        "data: a\nid: x/1\n\ndata: b\rid: x/2\r\r",
		": c\ndata: a\n: d\n\n":             ": c\ndata: a\n: d\nid: x/1\n\n",
		"id: 7\ndata: a\n\n":                "id: 7\ndata: a\nid: x/1\n\n",
		"data: a\nid: x/9\n\n":              "data: a\nid: x/9\nid: x/1\n\n",
		"event: e\ndata\n\n":                "event: e\ndata\nid: x/1\n\n",
		"data:\n\n":                         "data:\nid: x/1\n\n",
		"data: a\n\ndata: b":                "data: a\nid: x/1\n\ndata: b",
		"data: a\n\ndata: b\n":              "data: a\nid: x/1\n\ndata: b\n",
		"data: z\n\ndata: a\r\rdata: b\n\n": "data: z\nid: x/1\n\ndata: a\rid: x/2\r\rdata: b\nid: x/3\n\n",
		// A blank line leaves with data before it, or not at all.
		": c\n\n":                            ": c\n",
		": c\n\n: d\n\ndata: a\n\n":          ": c\n: d\ndata: a\nid: x/1\n\n",
		": c\r\n\r\ndata: a\r\n\r\n: d\r\r":  ": c\r\ndata: a\r\nid: x/1\r\n\r\n: d\r",
		"\n\n\ndata: a\n\n\n\r\n\r\rdata: b": "data: a\nid: x/1\n\ndata: b",
		"retry: 5\n\ndata: a\n\nx\n\n::\n\n": "retry: 5\ndata: a\nid: x/1\n\nx\n::\n",
		"dat: a\n\ndatas: a\n\n data: a\n\n": "dat: a\ndatas: a\n data: a\n",
		// The next event has neither the type nor the id of a block without data.
		"event: e\n\ndata: a\n\n":                "event: e\nevent:\ndata: a\nid: x/1\n\n",
		"event: e\r\n\r\nevent: f\rdata\r\r":     "event: e\r\nevent:\r\nevent: f\rdata\rid: x/1\r\r",
		"event: \n\nevent\n\nevent:\n\ndata\n\n": "event: \nevent\nevent:\ndata\nid: x/1\n\n",
		"event: e\nevent:\n\ndata\n\n":           "event: e\nevent:\ndata\nid: x/1\n\n",
		"id: 7\n\ndata: a\n\nid\n\n":             "id: 7\nid: x/0\ndata: a\nid: x/1\n\nid\nid: x/1\n",
		"id:7:1\n\ndata: a\n\n":                  "id:7:1\nid: x/0\ndata: a\nid: x/1\n\n",
		"data: a\n\nid: 7\nevent: e\n\n":         "data: a\nid: x/1\n\nid: 7\nevent: e\nevent:\nid: x/1\n",
		// What is a mark to some clients, or at some positions, is none to all at each.
		"\xef\xbb\xbfdata: a\n\n":                  "\xef\xbb\xbf:\ndata: a\nid: x/1\n\n",
		"\xef\xbb\xbf: c\n\n":                      "\xef\xbb\xbf:\n: c\n",
		"\xef\xbb\n\n":                             "\xef\xbb\n",
		"\xef\xbbdata: a\n\n":                      "\xef\xbbdata: a\n",
		"\n\xef\xbb\xbfdata: c\n\n":                ":\n\xef\xbb\xbfdata: c\n",
		"data: a\n\n\xef\xbb\xbfdata\ndata: b\n\n": "data: a\nid: x/1\n\n:\n\xef\xbb\xbfdata\ndata: b\nid: x/2\n\n",
	} {
		if got, _ := number(in); got != want {
			t.Errorf("%q became\n%q\nwant\n%q", in, got, want)
		}
		if got, _ := number(strings.Split(in, "")...); got != want {
			t.Errorf("%q byte by byte became\n%q\nwant\n%q", in, got, want)
		}
		if got, _ := number(strings.SplitAfter(in, "\n\n")...); got != want {
			t.Errorf("%q block by block became\n%q\nwant\n%q", in, got, want)
		}
	}
}

// plainly is number with plain numbers.
func plainly(pieces ...string) string {
	c := numbererOf(entry{about: about{Plain: true}})
	var out []byte
	for _, p := range pieces {
		out, _ = c.add(out, nil, []byte(p))
	}
	return string(out)
}

func TestEventsAreNumberedPlainly(t *testing.T) {
	const long = "1234567890123456789"
	for in, want := range map[string]string{
		"data: a\n\ndata: b\n\n":                      "data: a\nid: 0\n\ndata: b\nid: 1\n\n",
		"id: 0\ndata: a\n\nid: 1\ndata: b\n\n":        "id: 0\ndata: a\n\nid: 1\ndata: b\n\n",
		"id: 7\ndata: a\n\ndata: b\n\nid:9\ndata\n\n": "id: 7\ndata: a\n\ndata: b\nid: 8\n\nid:9\ndata\n\n",
		"data: a\r\nid: 3\r\n\r\ndata: b\r\n\r\n":     "data: a\r\nid: 3\r\n\r\ndata: b\r\nid: 4\r\n\r\n",
		": open\n\nid: 0\ndata: a\n\n: c\n\n":         ": open\nid: 0\ndata: a\n\n: c\n",
		// Ids that are no numbers, or not above all before.
		"id: 5\ndata: a\n\nid: 5\ndata: b\n\n":  "id: 5\ndata: a\n\nid: 5\ndata: b\nid: 6\n\n",
		"id: x\ndata: a\n\nid: -1\ndata: b\n\n": "id: x\ndata: a\nid: 0\n\nid: -1\ndata: b\nid: 1\n\n",
		"id: 5\nid\ndata: a\n\n":                "id: 5\nid\ndata: a\nid: 0\n\n",
		"id: " + long + "\ndata: a\n\n":         "id: " + long + "\ndata: a\nid: 0\n\n",
		"id: " + long[1:] + "\ndata: a\n\n":     "id: " + long[1:] + "\ndata: a\n\n",
		"id: " + long + long + "\ndata: a\n\n":  "id: " + long + long + "\ndata: a\nid: 0\n\n",
		// A block without data has no number.
		"id: 5\n\ndata: a\n\nid: 7\n\n": "id: 5\ndata: a\nid: 0\n\nid: 7\nid: 0\n",
	} {
		for _, pieces := range [][]string{{in}, strings.Split(in, "")} {
			if got := plainly(pieces...); got != want {
				t.Errorf("%q became\n%q\nwant\n%q", pieces, got, want)
			}
		}
	}
}

// partsReader is a Reader of parts.
type partsReader struct{ parts []string }

func (r *partsReader) Next() (log.Part, error) {
	if len(r.parts) == 0 {
		return log.Part{}, io.EOF
	}
	p := log.Part{Data: []byte(r.parts[0])}
	r.parts = r.parts[1:]
	return p, nil
}

func (*partsReader) Close() {}

// TestSeenEventsAreSkipped gives a client all events after the one that it has seen, whatever the
// stream, and however it comes.
func TestSeenEventsAreSkipped(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	lines := []string{"", "", "", "data: a", "data: " + strings.Repeat("x", 40), "data: " + strings.Repeat("id: 99:", 9), ": keepalive", "id: 3", "id: 20", "event: e", "id"}
	for range 3000 {
		var in strings.Builder
		end := []string{"\n", "\r\n", "\r"}[r.IntN(3)]
		for range 1 + r.IntN(40) {
			in.WriteString(lines[r.IntN(len(lines))] + end)
		}
		log := plainly(in.String())
		want, _, _ := readStandard(log)
		has := r.Uint64N(25)
		for len(want) > 0 {
			if n, err := strconv.ParseUint(want[0].id, 10, 64); err != nil || n > has {
				break
			}
			want = want[1:]
		}
		var out strings.Builder
		s := seen{has, true}.skip(&partsReader{cutUp(r, log, 1+r.IntN(90))})
		for p, err := s.Next(); err == nil; p, err = s.Next() {
			out.Write(p.Data)
		}
		if got, _, _ := readStandard(out.String()); !slices.Equal(got, want) {
			t.Fatalf("after %d of\n%q\ncomes\n%q\n%+v, want\n%+v", has, log, out.String(), got, want)
		}
		if n := strings.Count(log, ": keepalive"); strings.Count(out.String(), ": keepalive") != n {
			t.Fatalf("comments are missing in\n%q\nof\n%q", out.String(), log)
		}
	}
}

// recordings returns the streams that real servers have sent, by their files.
func recordings(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*/*.sse", "*/*/*.sse", "*/*/*/*.sse"} {
		files, err := filepath.Glob(filepath.Join("..", "testdata", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[file] = string(b)
		}
	}
	if len(all) < 50 {
		t.Fatalf("%d recordings, want all of them", len(all))
	}
	return all
}

// loose returns in, whose lines end with LF, without the blank lines that end no event.
func loose(in string) string {
	var b strings.Builder
	for _, block := range strings.SplitAfter(in, "\n\n") {
		if !strings.HasPrefix(block, "data") && !strings.Contains(block, "\ndata") && strings.HasSuffix(block, "\n\n") {
			block = block[:len(block)-1]
		}
		b.WriteString(block)
	}
	return b.String()
}

var idLine = regexp.MustCompile(`id: x/[0-9]+(\r\n|\r|\n)`)

// TestRecordingsAreNumbered checks that of a real stream only ids and those blank lines
// change, and that all clients get its events from each position.
func TestRecordingsAreNumbered(t *testing.T) {
	alone.NotUnderRace(t)
	for file, in := range recordings(t) {
		for _, end := range []string{"\n", "\r\n", "\r"} {
			in, want := strings.ReplaceAll(in, "\n", end), strings.ReplaceAll(loose(in), "\n", end)
			if out, _ := number(in); idLine.ReplaceAllString(out, "") != want {
				t.Errorf("%s: more has changed", file)
			}
			checkNumbered(t, in, 1)
		}
	}
}

// TestAnythingIsNumbered checks the same of streams that no server sends.
func TestAnythingIsNumbered(t *testing.T) {
	alone.NotUnderRace(t)
	r := rand.New(rand.NewPCG(3, 4))
	lines := []string{
		"", "", "", "", "data: a", "data: b", "data", "data:", ": keepalive", ":", "event: e", "event:", "event", "id: 7", "id", "id: x/1", "retry: 5", "what", "datas: d", "\xef\xbb\xbfdata: m", "\xef\xbb\xbf", "\xef\xbb", "event: ", "eventual: e",
	}
	ends := []string{"\n", "\r\n", "\r", ""}
	for range 3000 {
		var in strings.Builder
		mixed, end := r.IntN(2) == 0, ends[r.IntN(3)]
		for range 1 + r.IntN(25) {
			if mixed {
				end = ends[min(r.IntN(20), r.IntN(3))]
			}
			in.WriteString(lines[r.IntN(len(lines))] + end)
		}
		checkNumbered(t, in.String(), r.Uint64())
		if t.Failed() {
			return
		}
	}
}

// checkNumbered numbers a stream, cut at random, and checks what clients make of it.
func checkNumbered(t *testing.T, in string, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	out, ends := number(in)
	most := r.IntN(700)
	for range 3 {
		pieces := cutUp(r, in, most)
		if again, e := number(pieces...); again != out || !slices.Equal(e, ends) {
			t.Fatalf("cut as %q it becomes\n%q, %d\nnot\n%q, %d", pieces, again, e, out, ends)
		}
	}
	want, retry, _ := readStandard(in)
	for i := range want {
		want[i].id = fmt.Sprintf("x/%d", i+1)
	}
	got, gotRetry, lastID := readStandard(out)
	if !slices.Equal(got, want) || gotRetry != retry || len(ends) != len(want) {
		t.Fatalf("%q became\n%q\nwhose events are\n%+v, %d, retry %q\nwant\n%+v, retry %q", in, out, got, ends, gotRetry, want, retry)
	}
	if whole := strings.HasSuffix(strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n"), "\n\n"); whole && lastID != "" && lastID != fmt.Sprintf("x/%d", len(want)) {
		t.Fatalf("%q became\n%q\nwhose last id is %q", in, out, lastID)
	}
	positions := []int{0, len(ends)}
	for range min(len(ends), 20) {
		positions = append(positions, r.IntN(len(ends)))
	}
	for _, n := range positions {
		replay := out
		if n > 0 {
			replay = out[ends[n-1]:]
		}
		if got, _, _ := readStandard(replay); !slices.Equal(got, want[n:]) {
			t.Fatalf("%q became\n%q\nwhose events after %d are\n%+v\nwant\n%+v", in, out, n, got, want[n:])
		}
		pieces := cutUp(r, replay, most)
		if got := readOpenAI(pieces); !slices.Equal(got, want[n:]) {
			t.Fatalf("%q became\n%q\nof which openai-python reads after %d\n%+v\nwant\n%+v", in, out, n, got, want[n:])
		}
	}
}

// cutUp cuts in into pieces of random sizes, most of them not larger than most.
func cutUp(r *rand.Rand, in string, most int) (pieces []string) {
	for in != "" {
		n := 1 + r.IntN(min(len(in), most+1))
		pieces, in = append(pieces, in[:n]), in[n:]
	}
	return pieces
}

func FuzzNumber(f *testing.F) {
	f.Add("data: a\r\n\r\n: c\n\ndata: b\n\n", uint64(3))
	f.Add("\xef\xbb\xbfdata\r\r", uint64(1))
	f.Add("data: a\n\nevent: e\r\rid: 7\n\n\xef\xbb\xbfdata: a\n\r\n", uint64(5))
	f.Fuzz(checkNumbered)
}

// What clients make of the bytes of a stream: the tests' oracles.

// dispatched is an event that a client hands to its program.
type dispatched struct {
	kind, data, id string
	hasData        bool // there was a data field
}

// take takes in a line that is not blank, and returns the name and the value of its field.
func (e *dispatched) take(line string) (name, value string) {
	name, value, _ = strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch {
	case name == "event":
		e.kind = value
	case name == "id":
		e.id = value
	case name == "data" && e.hasData:
		e.data += "\n" + value
	case name == "data":
		e.data, e.hasData = value, true
	}
	return name, value
}

// readStandard reads a stream as the WHATWG says (HTML, section 9.2.6). It also returns the
// last id field, whose value some clients keep before its event is complete.
func readStandard(in string) (events []dispatched, retry, lastID string) {
	var e dispatched
	for _, line := range splitLines(strings.TrimPrefix(in, "\ufeff")) {
		text := strings.TrimRight(line, "\r\n")
		if text == line {
			break // it is not complete
		}
		if text == "" {
			if e.hasData {
				events = append(events, e)
			}
			e = dispatched{id: e.id}
			continue
		}
		switch name, value := e.take(text); name {
		case "id":
			lastID = value
		case "retry":
			retry = value
		}
	}
	return events, retry, lastID
}

// readOpenAI reads a stream that comes in pieces as openai-python's SSEDecoder does
// (openai/_streaming.py), and as httpx-sse does but for how it splits lines: every blank
// line ends an event as soon as an id is known.
func readOpenAI(pieces []string) (events []dispatched) {
	var block string
	var e dispatched
	retry := false
	decode := func() {
		for _, line := range splitLines(block) {
			line = strings.TrimRight(line, "\r\n")
			if line != "" {
				if name, value := e.take(line); name == "retry" {
					_, err := strconv.Atoi(value)
					retry = retry || err == nil
				}
			} else if e != (dispatched{}) || retry {
				events = append(events, e)
				e, retry = dispatched{id: e.id}, false
			}
		}
		block = ""
	}
	for _, piece := range pieces {
		for _, line := range splitLines(piece) {
			block += line
			if strings.HasSuffix(block, "\r\r") || strings.HasSuffix(block, "\n\n") || strings.HasSuffix(block, "\r\n\r\n") {
				decode()
			}
		}
	}
	decode()
	return events
}

// lines are the lines of a text, with their ends.
var lines = regexp.MustCompile("[^\r\n]*(\r\n|\r|\n)|[^\r\n]+$")

func splitLines(s string) []string { return lines.FindAllString(s, -1) }
