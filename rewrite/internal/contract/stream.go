package contract

// Params is rewrite.Params.
type Params struct {
	Active           bool
	Responses        bool
	RunID, SessionID string
	Progress         Progress
	ID               func() string
	Created          int64
	Usage            UsageMemory
	OnTool           func(ToolEvent)
	Explain          func(Step)
}

// Summary is rewrite.Summary.
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

// UsageMemory is rewrite.UsageMemory.
type UsageMemory interface {
	Reported(model string) bool
	Report(model string)
	Missed(model string)
	ReportsFailures(does bool)
}
