package replay

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestDecoderCutsFramesAsTheStandardSays(t *testing.T) {
	type event struct {
		name, data string
		hasData    bool
		torn       bool
	}
	tests := []struct {
		name, stream string
		want         []event
	}{
		{"lf", "data: a\n\ndata: b\n\n", []event{{data: "a", hasData: true}, {data: "b", hasData: true}}},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []event{{data: "a", hasData: true}, {data: "b", hasData: true}}},
		{"cr", "data: a\r\rdata: b\r\r", []event{{data: "a", hasData: true}, {data: "b", hasData: true}}},
		{"name", "event: x\ndata: a\n\ndata: b\n\n", []event{{name: "x", data: "a", hasData: true}, {data: "b", hasData: true}}},
		{"lines of data", "data: a\ndata:b\ndata\n\n", []event{{data: "a\nb\n", hasData: true}}},
		{"one space", "data:  a\n\n", []event{{data: " a", hasData: true}}},
		{"comment", ": keepalive\n\n", []event{{}}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []event{{data: "a", hasData: true}}},
		{"torn", "data: a\n\ndata: b\n", []event{{data: "a", hasData: true}, {data: "b", hasData: true, torn: true}}},
		{"torn in a line", "data: a\n\ndata: b", []event{{data: "a", hasData: true}, {torn: true}}},
		{"empty", "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, r := range []io.Reader{
				strings.NewReader(test.stream),
				iotest.OneByteReader(strings.NewReader(test.stream)),
			} {
				d := NewDecoder(r)
				raw := ""
				for _, want := range test.want {
					f, err := d.Next()
					if err != nil {
						t.Fatal(err)
					}
					if got := (event{f.Name, f.Data, f.HasData, f.Torn}); got != want {
						t.Errorf("got %+v, want %+v", got, want)
					}
					raw += string(f.Raw)
				}
				if _, err := d.Next(); err != io.EOF {
					t.Errorf("after the last frame: error %v, want EOF", err)
				}
				// The LF of a last CRLF may come when its frame is out.
				if strings.TrimSuffix(test.stream, "\n") != strings.TrimSuffix(raw, "\n") {
					t.Errorf("raw %q, want %q", raw, test.stream)
				}
			}
		})
	}
}

func TestDecoderReturnsAFrameBeforeTheNextByte(t *testing.T) {
	for _, stream := range []string{"data: a\n\n", "data: a\r\n\r\n", "data: a\r\r"} {
		r, w := io.Pipe()
		go io.WriteString(w, stream) // and no end: Next has to do without
		f, err := NewDecoder(r).Next()
		if err != nil || f.Data != "a" {
			t.Errorf("%q: data %q, error %v", stream, f.Data, err)
		}
		r.Close()
	}
}

func TestDecoderReturnsTheErrorAfterTheTornFrame(t *testing.T) {
	broken := errors.New("broken")
	d := NewDecoder(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)))
	for i, torn := range []bool{false, true} {
		f, err := d.Next()
		if err != nil || f.Torn != torn {
			t.Fatalf("frame %d: torn %v, error %v", i, f.Torn, err)
		}
	}
	if _, err := d.Next(); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

func TestDecoderBoundsAFrame(t *testing.T) {
	d := NewDecoder(io.LimitReader(endless{}, maxFrame+10))
	f, err := d.Next()
	if err != nil || !f.Torn || len(f.Raw) != maxFrame {
		t.Fatalf("torn %v, %d bytes, error %v", f.Torn, len(f.Raw), err)
	}
	if _, err := d.Next(); err == nil || err == io.EOF {
		t.Errorf("error %v, want one that names the limit", err)
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
