package replay

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// Package sse cuts frames as the standard says; here is what becomes of them.
func TestFramesAreTheStream(t *testing.T) {
	const stream = "\xef\xbb\xbf: hello\r\n\r\nevent: x\r\ndata: a\r\ndata:b\r\n\r\n\ndata\n\ndata: c\n"
	type event struct {
		name, data string
		torn       bool
	}
	want := []event{{name: "x", data: "a\nb"}, {}, {torn: true}}
	for name, r := range map[string]io.Reader{
		"at once": strings.NewReader(stream), "byte by byte": iotest.OneByteReader(strings.NewReader(stream)),
	} {
		var raw string
		var got []event
		if err := readFrames(r, func(f Frame) {
			raw += string(f.Raw)
			if f.HasData || f.Torn {
				got = append(got, event{f.Name, f.Data, f.Torn})
			}
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if raw != stream {
			t.Errorf("%s: raw %q, want %q", name, raw, stream)
		}
		if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
			t.Errorf("%s: events %+v, want %+v", name, got, want)
		}
	}
}

func TestAFrameArrivesBeforeTheNextByte(t *testing.T) {
	for _, stream := range []string{"data: a\n\n", "data: a\r\n\r\n", "data: a\r\r"} {
		r, w := io.Pipe()
		go io.WriteString(w, stream) // and no end: the frame has to do without
		got := make(chan Frame, 10)
		go readFrames(r, func(f Frame) { got <- f })
		if f := <-got; f.Data != "a" {
			t.Errorf("%q: data %q", stream, f.Data)
		}
		r.Close()
	}
}

func TestErrorComesBehindTheTornFrame(t *testing.T) {
	broken := errors.New("broken")
	var torn []bool
	err := readFrames(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), func(f Frame) {
		torn = append(torn, f.Torn)
	})
	if !errors.Is(err, broken) || len(torn) != 2 || torn[0] || !torn[1] {
		t.Errorf("error %v, want %v; torn %v", err, broken, torn)
	}
}

func TestFramesAreBounded(t *testing.T) {
	if err := readFrames(io.LimitReader(endless{}, maxFrame+10), func(Frame) { t.Error("a frame") }); err == nil {
		t.Error("no error, want one that names the limit")
	}
}

// endless is a line without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
