package contract

// ToolEvent is rewrite.ToolEvent.
type ToolEvent struct {
	ID, Name  string
	Completed bool
	Source    ToolSource
}

// ToolSource is what said that a tool has started or ended (contract sections 1 and 2).
type ToolSource string

const (
	SourceUpstream  ToolSource = "upstream"  // a tool event that upstream sent
	SourceMarker    ToolSource = "marker"    // a marker in the text; it only starts tools
	SourceImitation ToolSource = "imitation" // an imitated marker that is trusted; it only starts tools
	SourceInferred  ToolSource = "inferred"  // what came after the tool, such as text; it only ends tools
	SourceEnd       ToolSource = "end"       // the end of the stream; it only ends tools
)

// Tells reports whether the source can say that a tool has started or, if completed is
// true, that one has ended.
func (s ToolSource) Tells(completed bool) bool {
	if completed {
		return s != SourceMarker && s != SourceImitation
	}
	return s != SourceInferred && s != SourceEnd
}

var reasons = map[ToolSource]string{
	SourceUpstream:  "upstream says so",
	SourceMarker:    "its marker is here",
	SourceImitation: "a marker that is trusted is here",
	SourceInferred:  "what comes now proves it",
	SourceEnd:       "the stream ends",
}

// Reason returns the source in words.
func (s ToolSource) Reason() string { return reasons[s] }
