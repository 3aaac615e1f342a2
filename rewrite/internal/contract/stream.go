package contract

// Params are what is particular to one stream. The zero value is valid.
type Params struct {
	// Active says that the stream is one of chat completions from its first
	// byte on, because the request's path ends in /chat/completions. Otherwise it
	// becomes active at its first chunk (contract section 0).
	Active bool
	// Responses says that the request's path is that of /v1/responses. The events
	// still have to show what the stream is (contract section 6), but its errors lose
	// their secrets from the first one on.
	Responses bool
	// RunID and SessionID are the ids that RunOfPath and SessionOfPath find in the
	// request's path. Without them no stream is one of /v1/runs or of /api/sessions.
	RunID, SessionID string
	// Progress overrides Options.Progress unless it is empty.
	Progress Progress
	// ID and Created, in Unix seconds, are used in an error finish if no chunk has
	// come. ID is called at most once. Nil means an empty id.
	ID      func() string
	Created int64
	// Usage remembers which models report usage. Nil means no memory.
	Usage UsageMemory
	// OnTool is called for each start and end of a tool, in order, whatever form the
	// client gets it in. It may be nil.
	OnTool func(ToolEvent)
	// Explain is called with what becomes of each piece of the stream, and of
	// its end. It may be nil.
	Explain func(Step)
}

// Summary is what can be said of a stream.
type Summary struct {
	// ID and Model are those of the completion or of the response, empty until one has
	// come. For the events of a run ID is that of the run.
	ID, Model    string
	FinishReason string // the one that was sent, or empty
	Code         string // the code of the error that the stream ended with, empty if it ended well

	Frames, Chunks int // complete frames with data, and those of them that are chunks
	Tools, Markers int // starts of tools, and those of them that were markers
	Imitations     int // markers that were stripped and started no tool
	Reasoning      int // stretches of reasoning that stood between tags in the text
	Unexamined     int // frames that were larger than Options.MaxFrame
	Keepalives     int // keepalives that were written

	InputTokens, OutputTokens int64 // the usage that upstream reported last, 0 if it reported none
	UsageReported             bool  // the model was known to report usage when the finish chunk came
	ZeroUsagePassed           bool  // the answer had text and usage 0/0/0, and passed
}

// UsageMemory remembers which models of an upstream have reported usage, and
// whether the upstream reports its failures itself. It tells an answer that crashed with
// usage 0/0/0 from one of a provider that never reports usage (contract section 3, third
// rule of "false stop").
type UsageMemory interface {
	// Reported reports whether an answer of the model without usage means that the
	// agent failed: the model has reported usage, and upstream is not known to report
	// its failures.
	Reported(model string) bool
	// Report records that an answer of the model has reported usage.
	Report(model string)
	// Missed records that an answer of the model with text and without usage has
	// been taken for a crash, because Reported returned true. After three in a row the
	// model is forgotten until the next Report.
	Missed(model string)
	// ReportsFailures records whether upstream reports its failures itself: true
	// once it has shown that it does, false once it has shown that it is too old.
	ReportsFailures(does bool)
}
