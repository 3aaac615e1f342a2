package schema

import (
	"bytes"
	"hash/maphash"
	"regexp"
	"strings"
	"sync"
)

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
