package contract

// ToolEvent says that a tool has started or ended. It identifies the tool, but says
// nothing of what the tool does, because labels may hold secrets.
type ToolEvent struct {
	// ID is the tool call id, Name the tool's name.
	ID, Name string
	// Completed says that the tool has ended; otherwise it has started.
	Completed bool
	// Source is what says that it has.
	Source ToolSource
}

// ToolSource is what said that a tool has started or ended.
type ToolSource string

// The sources of tool events (contract sections 1 and 2).
const (
	// SourceUpstream is a tool event that upstream sent.
	SourceUpstream ToolSource = "upstream"
	// SourceMarker is a marker in the text. It only starts tools.
	SourceMarker ToolSource = "marker"
	// SourceImitation is an imitated marker that is trusted. It only starts tools.
	SourceImitation ToolSource = "imitation"
	// SourceInferred is what came after the tool, such as text. It only ends tools.
	SourceInferred ToolSource = "inferred"
	// SourceEnd is the end of the stream. It only ends tools.
	SourceEnd ToolSource = "end"
)

// ToolSources lists all sources.
func ToolSources() []ToolSource {
	return []ToolSource{SourceUpstream, SourceMarker, SourceImitation, SourceInferred, SourceEnd}
}

// Tells reports whether the source can say that a tool has started or, if completed is
// true, that one has ended.
func (s ToolSource) Tells(completed bool) bool {
	switch s {
	case SourceMarker, SourceImitation:
		return !completed
	case SourceInferred, SourceEnd:
		return completed
	}
	return true
}

// Reason returns the source in words.
func (s ToolSource) Reason() string {
	switch s {
	case SourceUpstream:
		return "upstream says so"
	case SourceMarker:
		return "its marker is here"
	case SourceImitation:
		return "a marker that is trusted is here"
	case SourceInferred:
		return "what comes now proves it"
	}
	return "the stream ends"
}
