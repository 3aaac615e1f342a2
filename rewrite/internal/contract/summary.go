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
