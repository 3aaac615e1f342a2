package hermes

import "strings"

// A Stream is an answer of an agent that a client reads as it comes. It has begun.
type Stream interface {
	Text(text string)                // says something
	Frame(lines ...string)           // sends an event as it is
	Wait(event <-chan struct{}) bool // until the event; false if the client leaves before
	Die()                            // breaks the connection
}

// A Step is one thing that an agent does in its turn. It reports whether the turn goes on.
type Step func(s Stream) bool

// Play takes the steps, and reports whether the turn is to end well.
func Play(s Stream, steps ...Step) bool {
	for _, step := range steps {
		if !step(s) {
			return false
		}
	}
	return true
}

// Says says a text.
func Says(text string) Step { return func(s Stream) bool { s.Text(text); return true } }

// Waits waits for an event, which is that the channel is closed or has a value. A turn whose client
// leaves before is over.
func Waits(event <-chan struct{}) Step {
	return func(s Stream) bool { return s.Wait(event) }
}

// Sends sends an event as it is.
func Sends(lines ...string) Step {
	return func(s Stream) bool { s.Frame(lines...); return true }
}

// Marks is a tool that starts, as Hermes before 0.9 shows it: by a marker, which is an emoji and a label.
func Marks(marker string) Step { return Says("\n`" + marker + "`\n") }

// Starts is a tool that starts, as Hermes shows it since 0.13.
func Starts(name, id string) Step { return Sends(Running(name, id)...) }

// Ends is the end of a tool that Starts has started. That of Marks shows only by the next text.
func Ends(name, id string) Step { return Sends(Completed(name, id)...) }

// Dies is the end of the agent's process: the connection breaks.
func Dies() Step { return func(s Stream) bool { s.Die(); return false } }

// A Command is what an agent asks about before it runs it.
type Command struct {
	Text    string
	Expires <-chan struct{} // the agent waits no longer for an answer; nil for never
	Dies    <-chan struct{} // the agent dies while it waits; nil for never
}

// asker is a Stream in which an agent may ask.
type asker interface {
	ask(c Command) (goesOn bool)
	answered() []string // so far
}

// Asks asks for approval of a command, and runs it if it gets that. In an answer that is not streamed
// Hermes asks for nothing and runs nothing.
func Asks(c Command) Step {
	return func(s Stream) bool {
		a, ok := s.(asker)
		return !ok || a.ask(c)
	}
}

// Reports says a text and how the questions so far were answered.
func Reports(text string) Step {
	return func(s Stream) bool {
		answers := ""
		if a, ok := s.(asker); ok {
			answers = strings.Join(a.answered(), ",")
		}
		s.Text("\n\n" + text + answers)
		return true
	}
}
