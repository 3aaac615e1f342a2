// Package memory remembers which tools ran during the answers to clients, for the records that later
// requests get (contract section 8). It knows no HTTP.
//
// What it has is gone with the process. It takes at most 16 MiB: what has not been asked for longest
// goes first. Nothing of one client is ever another's.
package memory

import (
	"container/list"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-sidecar/hermes-sidecar/internal/client"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const (
	// maxMemory is the number of bytes that all answers may take.
	maxMemory = 16 << 20
	// maxLike is the number of answers of a client with the same text, to the same question.
	maxLike = 256
	// answerSize and toolSize are what an answer and a tool take beside their texts.
	answerSize, toolSize = 640, 144
)

// Store has the answers of all clients. The zero value is empty. It is safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	size    int
	latest  list.List // of *answer, the one that was remembered or asked for last in front
	answers map[key][]*list.Element
	clients map[client.ID]int // how many answers with tools each has
}

// key says what the client shows of an answer in any history.
type key struct {
	client           client.ID
	question, answer rewrite.Text
}

// answer is an answer and the tools that ran during it. Those without tools are kept as well: another
// answer that is like one has tools that are not its own.
type answer struct {
	key
	past, before rewrite.Text // what was before it, as rewrite.Turn has it
	tools        []rewrite.ToolRun
	size         int
}

// is reports whether a is the answer in the turn t, for which key is the same.
func (a *answer) is(t rewrite.Turn) bool { return a.past == t.Past && a.before == t.Before }

// Of returns the memory of the client with the id.
func (s *Store) Of(id client.ID) rewrite.Memory { return of{s, id} }

// of is the memory of one client.
type of struct {
	*Store
	id client.ID
}

// Empty implements rewrite.Memory.
func (m of) Empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clients[m.id] == 0
}

// Recall implements rewrite.Memory. The same question may have had the same answer more than once. The
// history up to the question tells which one it is. If it is not the same (something was edited, or the
// client puts its time into it), there must be no more than one with the same answer before it; and if
// it has lost its beginning, so that it shows none, no more than one at all.
func (m of) Recall(t rewrite.Turn) []rewrite.ToolRun {
	m.mu.Lock()
	defer m.mu.Unlock()
	like := m.answers[m.key(t)]
	i := slices.IndexFunc(like, func(e *list.Element) bool { return e.Value.(*answer).is(t) })
	if i < 0 {
		before := func(e *list.Element) bool { return e.Value.(*answer).before == t.Before }
		switch i = slices.IndexFunc(like, before); {
		case i < 0 && t.Before == 0 && len(like) == 1:
			i = 0
		case i < 0 || slices.ContainsFunc(like[i+1:], before):
			return nil
		}
	}
	m.latest.MoveToFront(like[i])
	return like[i].Value.(*answer).tools
}

// Remember implements rewrite.Memory. An answer takes the place of an earlier one after the same
// history: a client that shows it shows the later one.
func (m of) Remember(t rewrite.Turn, tools []rewrite.ToolRun) {
	if t.Question == 0 || t.Answer == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a := &answer{key: m.key(t), past: t.Past, before: t.Before, tools: slices.Clone(tools), size: answerSize + toolSize*len(tools)}
	for i := range a.tools {
		for _, text := range []*string{&a.tools[i].Name, &a.tools[i].Args, &a.tools[i].Ended, &a.tools[i].Result} {
			*text = strings.Clone(*text) // it may be a part of a frame
			a.size += len(*text)
		}
	}
	like := m.answers[a.key]
	if i := slices.IndexFunc(like, func(e *list.Element) bool { return e.Value.(*answer).is(t) }); i >= 0 {
		m.forget(like[i])
	} else if len(like) == maxLike {
		m.forget(like[0])
	}
	m.add(a)
	for m.size > maxMemory {
		m.forget(m.latest.Back())
	}
}

func (m of) key(t rewrite.Turn) key { return key{m.id, t.Question, t.Answer} }

// add adds an answer. s.mu is held.
func (s *Store) add(a *answer) {
	if s.answers == nil {
		s.answers, s.clients = map[key][]*list.Element{}, map[client.ID]int{}
	}
	s.answers[a.key] = append(s.answers[a.key], s.latest.PushFront(a))
	if len(a.tools) > 0 {
		s.clients[a.client]++
	}
	s.size += a.size
}

// forget removes the answer of e. s.mu is held.
func (s *Store) forget(e *list.Element) {
	a := s.latest.Remove(e).(*answer)
	if like := slices.DeleteFunc(s.answers[a.key], func(o *list.Element) bool { return o == e }); len(like) > 0 {
		s.answers[a.key] = like
	} else {
		delete(s.answers, a.key)
	}
	if len(a.tools) > 0 {
		if s.clients[a.client]--; s.clients[a.client] == 0 {
			delete(s.clients, a.client)
		}
	}
	s.size -= a.size
}
