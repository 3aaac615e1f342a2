package resume

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// number gives ids to a stream that comes in these pieces.
func number(pieces ...string) (out string, ends []int) {
	c := newNumberer("x")
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
		"":                         "",
		"data: a\n\n":              "data: a\nid: x/1\n\n",
		"data: a\n\ndata: b\n\n":   "data: a\nid: x/1\n\ndata: b\nid: x/2\n\n",
		"data: a\r\n\r\n":          "data: a\r\nid: x/1\r\n\r\n",
		"data: a\r\rdata: b\r\r":   "data: a\rid: x/1\r\rdata: b\rid: x/2\r\r",
		"data: a\r\n\ndata: b\n\r": "data: a\r\nid: x/1\r\n\ndata: b\nid: x/2\n\r",
		": c\n\n":                  ": c\n\n",
		": c\n\ndata: a\n\n":       ": c\n\ndata: a\nid: x/1\n\n",
		": c\ndata: a\n: d\n\n":    ": c\ndata: a\n: d\nid: x/1\n\n",
		"\n\n\ndata: a\n\n\n\n":    "\n\n\ndata: a\nid: x/1\n\n\n\n",
		"id: 7\ndata: a\n\n":       "id: 7\ndata: a\nid: x/1\n\n",
		"data: a\nid: x/9\n\n":     "data: a\nid: x/9\nid: x/1\n\n",
		"event: e\ndata\n\n":       "event: e\ndata\nid: x/1\n\n",
		"data: a\n\n: c\n\n\n\n::\n\na\n\n\r\n\ndata: b\n\n": "data: a\nid: x/1\n\n: c\n\n\n\n::\n\na\nid: x/2\n\n\r\n\ndata: b\nid: x/3\n\n",
		"data: a\n\ndata: b":      "data: a\nid: x/1\n\ndata: b",
		"data: a\n\ndata: b\n":    "data: a\nid: x/1\n\ndata: b\n",
		"\xef\xbb\xbfdata: a\n\n": "\xef\xbb\xbfdata: a\nid: x/1\n\n",
		"\xef\xbb\xbf: c\n\n":     "\xef\xbb\xbf: c\n\n",
		"\xef\xbb\n\n":            "\xef\xbb\nid: x/1\n\n",
		"\n\xef\xbb\xbf: c\n\n":   "\n\xef\xbb\xbf: c\nid: x/1\n\n",
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

// TestNumbersCountUp one by one, also from where a log has come to.
func TestNumbersCountUp(t *testing.T) {
	c := newNumberer("x")
	for n := range uint64(1200) {
		if out, _ := c.add(nil, nil, []byte("data: a\n\n")); string(out) != fmt.Sprintf("data: a\nid: x/%d\n\n", n+1) {
			t.Fatalf("the event %d is %q", n+1, out)
		}
	}
	for _, n := range []uint64{0, 8, 9, 10, 98, 99, 10998, math.MaxUint64 - 1} {
		c := newNumberer("stream_0123456789abcdef012345")
		c.setLast(n)
		if out, _ := c.add(nil, nil, []byte("data: a\n\n")); string(out) != fmt.Sprintf("data: a\nid: stream_0123456789abcdef012345/%d\n\n", n+1) {
			t.Errorf("behind the event %d comes %q", n, out)
		}
	}
}

func TestEndsAreBehindTheBlankLine(t *testing.T) {
	out, ends := number("data: a\r\n\r\n: c\n\ndata: b\n\n", "data: c\n", "\ndata: d")
	var got []string
	from := 0
	for _, end := range ends {
		got = append(got, out[from:end])
		from = end
	}
	if want := []string{"data: a\r\nid: x/1\r\n\r\n", ": c\n\ndata: b\nid: x/2\n\n", "data: c\nid: x/3\n\n"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Recordings returns the streams that real servers have sent, by their files. The tests
// outside the package use it, too.
func Recordings(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*/*.sse", "*/*/*.sse", "*/*/*/*.sse"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "testdata", pattern))
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

var idLine = regexp.MustCompile(`id: x/[0-9]+(\r\n|\r|\n)`)

func TestAnyCutGivesTheSameLog(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for file, in := range Recordings(t) {
		for _, in := range []string{in, strings.ReplaceAll(in, "\n", "\r\n"), strings.ReplaceAll(in, "\n", "\r")} {
			want, _ := number(in)
			if idLine.ReplaceAllString(want, "") != in {
				t.Errorf("%s: more than ids has changed", file)
			}
			if got, _ := number(strings.SplitAfter(in, "\n\n")...); got != want {
				t.Fatalf("%s: event by event it is another log", file)
			}
			for range 3 {
				var pieces []string
				for rest := in; rest != ""; {
					n := 1 + r.IntN(min(len(rest), 700))
					pieces, rest = append(pieces, rest[:n]), rest[n:]
				}
				if got, _ := number(pieces...); got != want {
					t.Fatalf("%s: another cut gives another log", file)
				}
			}
		}
	}
}

func FuzzNumber(f *testing.F) {
	f.Add("data: a\r\n\r\n: c\n\ndata: b\n\n", uint64(3))
	f.Add("\xef\xbb\xbfdata\r\r", uint64(1))
	f.Fuzz(func(t *testing.T, in string, seed uint64) {
		want, ends := number(in)
		r := rand.New(rand.NewPCG(seed, 0))
		var pieces []string
		for rest := in; rest != ""; {
			n := 1 + r.IntN(len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got, _ := number(pieces...); got != want {
			t.Fatalf("%q cut as %q gives\n%q\nwant\n%q", in, pieces, got, want)
		}
		if n := len(ends); n > 0 && !strings.Contains(want[:ends[n-1]], fmt.Sprintf("id: x/%d", n)) {
			t.Fatalf("%q has no id %d in front of %d", want, n, ends[n-1])
		}
		if !strings.Contains(in, "id: x/") && idLine.ReplaceAllString(want, "") != in {
			t.Fatalf("more than ids has changed: %q became %q", in, want)
		}
	})
}
