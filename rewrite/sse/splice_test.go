package sse

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// What is replaced in the data of a frame is replaced in what a client reads, and
// nothing else: whatever lines the data has, and however they end.
func TestSplicedDataIsWhatAClientReads(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	ends := []string{"\n", "\r\n", "\r"}
	for n := range 20000 {
		many := 1 // of lines and edits
		if n%100 == 0 {
			many = MaxEdits
		}
		var raw strings.Builder
		end := ends[r.IntN(len(ends))]
		for range r.IntN(2) {
			raw.WriteString("id: 7" + end)
		}
		for range many + r.IntN(4) {
			raw.WriteString([]string{"data: ", "data:"}[r.IntN(2)] + strings.Repeat("abc", r.IntN(3)) + end)
		}
		raw.WriteString("event: x" + end + end)
		var f, got Frame
		f.Parse([]byte(raw.String()))

		var s Splice
		want, at := []byte(nil), 0
		for at < len(f.Data) {
			from := at + r.IntN((len(f.Data)-at)/many+1)
			to := from + r.IntN((len(f.Data)-from)/many+1)
			with := []byte(strings.Repeat("x", r.IntN(3)))
			s.Replace(&f, from, to, with)
			want = append(append(want, f.Data[at:from]...), with...)
			want = append(want, bytes.Repeat([]byte("\n"), bytes.Count(f.Data[from:to], []byte("\n")))...)
			if at = to; r.IntN(2*many*many) == 0 {
				break
			}
		}
		want = append(want, f.Data[at:]...)
		out := s.Append(nil, &f)
		if len(out) != s.Size(&f) {
			t.Fatalf("%d bytes, Size says %d", len(out), s.Size(&f))
		}
		got.Parse(out)
		if string(got.Data) != string(want) || string(got.Event) != "x" {
			t.Fatalf("%q: data %q, want %q", out, got.Data, want)
		}
	}
}

// A replacement of very many lines takes little memory, and no bytes but its own, after others that
// are so many that they are merged, and after one that stands later.
func TestReplacementOfManyLinesIsBounded(t *testing.T) {
	const lines = 100_000
	raw := "data: ab\n" + strings.Repeat("data:\n", lines) + "event: x\n" + strings.Repeat("data:\n: c\n", lines) + "data: yz\n\n"
	for _, many := range []int{0, 2 * MaxEdits} {
		var f, got Frame
		var s Splice
		f.Parse([]byte(raw))
		for range many {
			s.Replace(&f, 0, 0, []byte("-"))
		}
		from, to := f.EventLine()
		s.ReplaceRaw(from, to, nil)
		edits := []func(){
			func() { s.Replace(&f, 1, len(f.Data)-1, []byte("B")) },
			func() { s.Replace(&f, len(f.Data)-1, len(f.Data), []byte("Z")) },
		}
		if many == 0 {
			slices.Reverse(edits)
		}
		for _, do := range edits {
			do()
		}
		if n := len(s.edits); n > 2*MaxEdits {
			t.Errorf("%d edits, want at most %d", n, 2*MaxEdits)
		}
		got.Parse(s.Append(nil, &f))
		data, comments := strings.ReplaceAll(string(got.Data), "\n", ""), bytes.Count(got.Raw, []byte(": c\n"))
		if want := strings.Repeat("-", many) + "aBZ"; data != want || got.Event != nil || comments != lines {
			t.Errorf("data %q, want %q; event %q; %d comments", data, want, got.Event, comments)
		}
	}
}
