package schema

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxFrame is the size in bytes above which a frame is not checked: the sidecar writes none
// that large.
const maxFrame = 1 << 20

// maxReported is the number of problems of an answer that are reported.
const maxReported = 5

// Watch returns the body of an answer. Of what is read from it, each frame that is the
// sidecar's own has to be one of frame.json, and each error body one of error.json. What
// upstream has sent is not checked.
func Watch(t testing.TB, res *http.Response) io.ReadCloser {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	_, already := res.Body.(*watched)
	isError := kind == "application/problem+json" || kind == "application/json" && (res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests)
	if already || res.Header.Get("Content-Encoding") != "" || kind != "text/event-stream" && !isError {
		return res.Body
	}
	return &watched{ReadCloser: res.Body, t: t, isError: isError}
}

// A watched body checks what is read from it.
type watched struct {
	io.ReadCloser
	t        testing.TB
	isError  bool   // not a stream
	begun    []byte // the frame, or the error, so far
	skips    bool   // the frame is too large
	reported int
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	w.begun = append(w.begun, b[:n]...)
	if w.isError {
		if err == io.EOF {
			w.report(CheckError(string(w.begun)))
		}
		return n, err
	}
	for {
		frame, rest, whole := bytes.Cut(w.begun, []byte("\n\n"))
		if !whole {
			break
		}
		if !w.skips && w.reported < maxReported {
			w.report(CheckFrame(string(frame) + "\n\n"))
		}
		w.begun, w.skips = rest, false
	}
	if len(w.begun) > maxFrame {
		w.skips = true
	}
	if w.skips && len(w.begun) > 1 {
		w.begun = append(w.begun[:0], w.begun[len(w.begun)-1]) // half of a blank line, perhaps
	}
	return n, err
}

func (w *watched) report(problem error) {
	if problem != nil {
		w.reported++
		w.t.Error(problem)
	}
}

// An own schema describes what the sidecar writes itself. It is compiled once.
type own struct {
	*jsonschema.Schema
	text string
}

func ownSchema(name string) func() own {
	return sync.OnceValue(func() own {
		s, err := load(name)
		if err != nil {
			panic(err) // of a file of the repository
		}
		return own{s.compiler.MustCompile(name), s.text}
	})
}

var frameSchema, errorSchema = ownSchema("frame.json"), ownSchema("error.json")

// CheckFrame checks a frame against frame.json, unless upstream has sent it, or package
// strict cannot read it: not every stream is in the form that the sidecar writes. Members
// of upstream's that the schema does not name are left out.
func CheckFrame(raw string) error {
	if sent.all(raw) {
		return nil
	}
	s := frameSchema()
	f, err := Frame(raw)
	if f == nil {
		return nil
	}
	if err == nil {
		err = s.Validate(f)
	}
	if err != nil && s.Validate(s.without(f)) != nil {
		return fmt.Errorf("docs/schema/frame.json does not know the frame %q: %w", harness.Clip(raw), err)
	}
	return nil
}

// without returns a value without the members that only upstream knows: the schema has not
// got their names.
func (s own) without(value any) any {
	switch v := value.(type) {
	case map[string]any:
		left := map[string]any{}
		for name, of := range v {
			if strings.Contains(s.text, `"`+name+`"`) || !sent.names(strings.TrimPrefix(name, "hermes_")) {
				left[name] = s.without(of)
			}
		}
		return left
	case []any:
		left := make([]any, len(v))
		for i, of := range v {
			left[i] = s.without(of)
		}
		return left
	}
	return value
}

// CheckError checks the body of an error against error.json, unless upstream has sent it.
func CheckError(body string) error {
	if body == "" || sent.all(body) {
		return nil
	}
	v, err := Parse(body)
	if err == nil {
		err = errorSchema().Validate(v)
	}
	if err != nil {
		return fmt.Errorf("docs/schema/error.json does not know the error %q: %w", harness.Clip(body), err)
	}
	return nil
}
