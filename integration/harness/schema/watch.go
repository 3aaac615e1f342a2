package schema

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxFrame is the size in bytes above which a frame is not looked at: the sidecar writes
// none that large.
const maxFrame = 1 << 20

// Watch returns the body of an answer. Of what is read from it, each frame that is the
// sidecar's own has to be one of frame.json, and each error body one of error.json. What
// upstream has sent is not looked at.
func Watch(t testing.TB, res *http.Response) io.ReadCloser {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	_, already := res.Body.(*watched)
	switch {
	case already:
		return res.Body
	case res.Header.Get("Content-Encoding") != "":
		return res.Body
	case kind == "text/event-stream":
		return &watched{ReadCloser: res.Body, t: t, of: res}
	case kind == "application/problem+json", kind == "application/json" && res.StatusCode >= 500:
		return &watched{ReadCloser: res.Body, t: t, of: res, whole: true}
	}
	return res.Body
}

// A watched body looks at what is read.
type watched struct {
	io.ReadCloser
	t     testing.TB
	of    *http.Response
	whole bool // it is an error, not a stream
	begun []byte
	seen  int  // how much of begun has no blank line
	large bool // the frame is
	found int  // problems
}

// maxFound is the number of problems of an answer that are told.
const maxFound = 5

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	w.begun = append(w.begun, b[:n]...)
	switch {
	case !w.whole:
		w.frames()
	case err == io.EOF && len(w.begun) > 0:
		if problem := CheckError(string(w.begun)); problem != nil {
			w.t.Errorf("%s: %v", w.of.Status, problem)
		}
		w.begun = nil
	}
	return n, err
}

// frames looks at the frames that are complete.
func (w *watched) frames() {
	for {
		from := max(w.seen-1, 0)
		end := bytes.Index(w.begun[from:], []byte("\n\n"))
		if end < 0 {
			if w.large = w.large || len(w.begun) > maxFrame; w.large && len(w.begun) > 0 {
				w.begun = append(w.begun[:0], w.begun[len(w.begun)-1])
			}
			w.seen = len(w.begun)
			return
		}
		raw := string(w.begun[:from+end+2])
		w.begun, w.seen = w.begun[from+end+2:], 0
		switch {
		case w.large:
			w.large = false
		case w.found < maxFound:
			if problem := CheckFrame(raw); problem != nil {
				w.found++
				w.t.Errorf("%v", problem)
			}
		}
	}
}

// described has the frames that are in frame.json, so that a stream that is repeated is
// validated once.
var described sync.Map

// CheckFrame holds a frame against frame.json, unless upstream has sent it, or package
// strict cannot read it: not every stream is in the form that the sidecar writes. Members
// of upstream's that the schema does not name are left out.
func CheckFrame(raw string) error {
	if _, ok := described.Load(raw); ok || isUpstreams(raw) {
		return nil
	}
	s, err := frameSchema()
	if err != nil {
		return err
	}
	f, problem := Frame(raw)
	if f == nil {
		return nil
	}
	if problem == nil {
		problem = s.Validate(f)
	}
	if problem == nil {
		described.Store(raw, true)
	}
	if problem == nil || isUpstreamsButForSecrets(raw) {
		return nil
	}
	names := map[string]bool{}
	propertiesOf(s, names, map[*jsonschema.Schema]bool{})
	if s.Validate(without(f, names)) == nil {
		return nil
	}
	return fmt.Errorf("docs/schema/frame.json does not know the frame %q: %w", harness.Clip(raw), nearest(s, f, problem))
}

// nearest returns what keeps a value from being of the kind that it is nearest to, of those
// that a schema allows: a kind with other lines is not near.
func nearest(s *jsonschema.Schema, value any, problem error) error {
	for _, kind := range s.AnyOf {
		err := kind.Validate(value)
		if err == nil || strings.Contains(err.Error(), "at '':") || strings.Contains(err.Error(), "at '/event':") || strings.Contains(err.Error(), "at '/data': value") {
			continue
		}
		if len(err.Error()) < len(problem.Error()) {
			problem = err
		}
	}
	return problem
}

// CheckError holds the body of an error against error.json, unless upstream has sent it.
func CheckError(body string) error {
	if isUpstreams(body) {
		return nil
	}
	s, err := errorSchema()
	if err != nil {
		return err
	}
	v, err := Parse(body)
	if err == nil {
		err = s.Validate(v)
	}
	if err != nil {
		return fmt.Errorf("docs/schema/error.json does not know the error %q: %w", harness.Clip(body), nearest(s, v, err))
	}
	return nil
}

// without returns a value without the members that only upstream knows: their names are
// not among those of the schema.
func without(value any, names map[string]bool) any {
	switch v := value.(type) {
	case map[string]any:
		left := map[string]any{}
		for name, of := range v {
			if names[name] || !sent.names(strings.TrimPrefix(name, "hermes_")) {
				left[name] = without(of, names)
			}
		}
		return left
	case []any:
		left := make([]any, len(v))
		for i, of := range v {
			left[i] = without(of, names)
		}
		return left
	}
	return value
}

// propertiesOf adds the names of the properties that a schema has anywhere.
func propertiesOf(s *jsonschema.Schema, names map[string]bool, seen map[*jsonschema.Schema]bool) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	for name, p := range s.Properties {
		names[name] = true
		propertiesOf(p, names, seen)
	}
	for _, p := range s.DependentSchemas {
		propertiesOf(p, names, seen)
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, {s.Ref, s.If, s.Then, s.Else, s.Not, s.Items2020, s.Contains}} {
		for _, p := range list {
			propertiesOf(p, names, seen)
		}
	}
}

// sent has the lines that the upstream servers of this process have sent. It is one for
// all: a client cannot know which server a sidecar asked.
var sent = &lines{hashes: map[uint64]bool{}, open: map[*Sender]bool{}, looked: map[string]look{}}

// Bounds of the lines whose text is kept, in bytes, one and all.
const (
	maxText  = 64 << 10
	maxTexts = 64 << 20
)

// lines are lines that have been sent, in any order.
type lines struct {
	mu     sync.Mutex
	hashes map[uint64]bool  // of all
	texts  [][]byte         // of the first ones that differ
	size   int              // of texts, in bytes
	open   map[*Sender]bool // whose last line may go on
	looked map[string]look  // what is known of names
}

// A look says whether a name is in texts, as far as they have been looked at.
type look struct {
	found bool
	texts int // how many have been looked at
}

var seed = maphash.MakeSeed()

// A Sender is told what an upstream server sends as the body of one answer.
type Sender struct {
	hash maphash.Hash // of the line so far
	text []byte       // its beginning
}

// NewSender returns the Sender of an answer. Close it at its end.
func NewSender() *Sender {
	s := &Sender{}
	s.hash.SetSeed(seed)
	sent.mu.Lock()
	defer sent.mu.Unlock()
	sent.open[s] = true
	return s
}

// Write is told what is about to be sent.
func (s *Sender) Write(b []byte) {
	sent.mu.Lock()
	defer sent.mu.Unlock()
	for len(b) > 0 {
		n := bytes.IndexAny(b, "\r\n")
		line := b
		if n >= 0 {
			line = b[:n]
		}
		s.hash.Write(line)
		if room := maxText - len(s.text); room > 0 {
			s.text = append(s.text, line[:min(len(line), room)]...)
		}
		if n < 0 {
			return
		}
		s.keep()
		b = b[n+1:]
	}
}

// Close is told that nothing more is sent.
func (s *Sender) Close() {
	sent.mu.Lock()
	defer sent.mu.Unlock()
	s.keep()
	delete(sent.open, s)
}

// keep remembers the line, and begins another.
func (s *Sender) keep() {
	of := s.hash.Sum64()
	if !sent.hashes[of] && sent.size < maxTexts {
		sent.texts = append(sent.texts, bytes.Clone(s.text))
		sent.size += len(s.text)
	}
	sent.hashes[of] = true
	s.hash.Reset()
	s.text = s.text[:0]
}

// isUpstreams reports whether upstream has sent each line of a text, but for ids of
// hermes_resume.
func isUpstreams(text string) bool {
	sent.mu.Lock()
	defer sent.mu.Unlock()
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if !strings.HasPrefix(line, "id: ") && !sent.has(line) {
			return false
		}
	}
	return true
}

func (l *lines) has(line string) bool {
	of := maphash.String(seed, line)
	if l.hashes[of] {
		return true
	}
	for s := range l.open {
		if s.hash.Sum64() == of {
			return true
		}
	}
	return false
}

// secret matches what the sidecar puts in the place of a secret.
var secret = regexp.MustCompile(`\[redacted\]|\*{3,}`)

// isUpstreamsButForSecrets reports whether upstream has sent each line of a text, some of
// them with secrets that are not in the text any more.
func isUpstreamsButForSecrets(text string) bool {
	if !secret.MatchString(text) {
		return false
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if isUpstreams(line) {
			continue
		}
		parts := secret.Split(line, -1)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		if !sent.matches(regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")) {
			return false
		}
	}
	return true
}

func (l *lines) matches(pattern *regexp.Regexp) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range l.texts {
		if pattern.Match(text) {
			return true
		}
	}
	return false
}

// names reports whether upstream has used the name of a member.
func (l *lines) names(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.looked[name]
	for ; !known.found && known.texts < len(l.texts); known.texts++ {
		known.found = bytes.Contains(l.texts[known.texts], []byte(`"`+name+`"`))
	}
	l.looked[name] = known
	return known.found
}
