package contract

// ToolEvent says that a tool has started or ended.
type ToolEvent struct {
	ID, Name  string
	Completed bool
	Source    ToolSource
}

// ToolSource is what said that a tool has started or ended (contract sections 1 and 2).
type ToolSource string

const (
	SourceUpstream  = "upstream"  // a tool event that upstream sent
	SourceMarker    = "marker"    // a marker in the text; it only starts tools
	SourceImitation = "imitation" // an imitated marker that is trusted; it only starts tools
	SourceInferred  = "inferred"  // what came after the tool, such as text; it only ends tools
	SourceEnd       = "end"       // the end of the stream; it only ends tools
)

var reasons = map[ToolSource]string{
	SourceUpstream:  "upstream says so",
	SourceMarker:    "its marker is here",
	SourceImitation: "a marker that is trusted is here",
	SourceInferred:  "what comes now proves it",
	SourceEnd:       "the stream ends",
}

// Reason returns the source in words.
func (s ToolSource) Reason() string { return reasons[s] }
