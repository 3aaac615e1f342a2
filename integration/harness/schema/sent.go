package schema

import (
	"bytes"
	"hash/maphash"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Bounds of the lines whose text is kept, in bytes, one and all.
const (
	maxText  = 64 << 10
	maxTexts = 64 << 20
)

// sent has the lines that the upstream servers of this process have sent. It is one for
// all: a client cannot know which server a sidecar asked.
var sent = lines{hashes: map[uint64]bool{}, begun: map[*Sender]bool{}}

// lines are lines that have been sent, in any order.
type lines struct {
	mu     sync.Mutex
	hashes map[uint64]bool  // of all, true for whole ones; others were sent without their ends
	texts  []byte           // the first ones that differ, each with a newline in front
	begun  map[*Sender]bool // whose line has no end, and has none if the answer breaks off
}

var seed = maphash.MakeSeed()

// A Sender is told the body of one answer of an upstream server.
type Sender struct {
	hash maphash.Hash // of the line so far
	text []byte       // its beginning
}

// NewSender returns the Sender of an answer.
func NewSender() *Sender {
	s := &Sender{}
	s.hash.SetSeed(seed)
	return s
}

// Write is called with bytes before they are sent.
func (s *Sender) Write(b []byte) {
	sent.mu.Lock()
	defer sent.mu.Unlock()
	for {
		n := bytes.IndexAny(b, "\r\n")
		line := b
		if n >= 0 {
			line = b[:n]
		}
		s.hash.Write(line)
		s.text = append(s.text, line[:min(len(line), maxText-len(s.text))]...)
		of := s.hash.Sum64()
		known := sent.hashes[of]
		sent.hashes[of] = known || n >= 0
		if n < 0 {
			if len(s.text) > 0 {
				sent.begun[s] = true
			}
			return
		}
		delete(sent.begun, s)
		if !known && len(sent.texts) < maxTexts {
			sent.texts = append(append(sent.texts, '\n'), s.text...)
		}
		s.hash.Reset()
		s.text = s.text[:0]
		b = b[n+1:]
	}
}

// secret matches what the sidecar puts in the place of a secret.
var secret = regexp.MustCompile(`\[redacted\]|\*{3,}`)

// all reports whether upstream has sent each line of a text, but for the ids of
// hermes_resume and for secrets that are not in the text any more.
func (l *lines) all(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		_, has := l.hashes[maphash.String(seed, line)]
		if !has && !strings.HasPrefix(line, "id: ") && !l.redacted(line) {
			return false
		}
	}
	return true
}

// redacted reports whether a line is one of texts but for its secrets.
func (l *lines) redacted(line string) bool {
	parts := secret.Split(line, -1)
	if len(parts) == 1 {
		return false
	}
	longest := slices.MaxFunc(parts, func(a, b string) int { return len(a) - len(b) })
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	form := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
	for s := range l.begun {
		if form.Match(s.text) {
			return true
		}
	}
	for rest := l.texts; ; { // the texts are too many to be matched: those that have the longest part
		i := bytes.Index(rest, []byte(longest))
		if i < 0 {
			return false
		}
		begins, ends := bytes.LastIndexByte(rest[:i], '\n')+1, bytes.IndexByte(rest[i:], '\n')
		if ends < 0 {
			return form.Match(rest[begins:])
		}
		if form.Match(rest[begins : i+ends]) {
			return true
		}
		rest = rest[i+ends+1:]
	}
}

// names reports whether upstream has used the name of a member.
func (l *lines) names(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.texts, []byte(`"`+name+`"`))
}
