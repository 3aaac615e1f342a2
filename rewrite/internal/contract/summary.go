package contract

// Summary is what can be said of a stream.
type Summary struct {
	ID, Model    string
	FinishReason string
	Code         string

	Frames, Chunks int
	Tools, Markers int
	Imitations     int
	Reasoning      int
	Unexamined     int
	Keepalives     int

	InputTokens, OutputTokens int64
	UsageReported             bool
	ZeroUsagePassed           bool
}

// The sections of the contract that a note may name.
const (
	SectionHarm      = "0"
	SectionMarkers   = "1"
	SectionTools     = "2"
	SectionEnd       = "3"
	SectionReasoning = "4"
	SectionOther     = "6"
)

// Notes explains a stream: it takes the section of the contract that a rule is in, and
// what was done, in a few words. It may be nil.
type Notes struct{ Take func(section, text string) }

// Add adds a note unless n is nil.
func (n *Notes) Add(section, text string) {
	if n != nil {
		n.Take(section, text)
	}
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
