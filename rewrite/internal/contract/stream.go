package contract

// Params are what is particular to one stream. The zero value is valid.
type Params struct {
	// Active says that the stream is one of chat completions from its first
	// byte on, because the request's path ends in /chat/completions. Otherwise it
	// becomes active at its first chunk (contract section 0).
	Active bool
	// Responses says that the request's path is that of /v1/responses. The events
	// still have to show what the stream is (contract, "The other streams"), but
	// its errors lose their secrets from the first one on.
	Responses bool
	// RunID is the id in the request's path if that asks for the events of a run,
	// and otherwise empty. Without it no stream is one of /v1/runs.
	RunID string
	// SessionID is the id in the request's path if that begins a stream in a session,
	// and otherwise empty. Without it no stream is one of /api/sessions.
	SessionID string
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
	ID, Model string
	// FinishReason is the finish reason that was sent, or empty.
	FinishReason string
	// Code is the code of the error that the stream ended with, empty if it
	// ended well.
	Code string
	// Frames counts complete frames with data, Chunks those that are chunks.
	Frames, Chunks int
	// Tools counts tool starts, Markers the ones that were markers.
	Tools, Markers int
	// Imitations counts the markers that were stripped and started no tool.
	Imitations int
	// Reasoning counts the stretches of reasoning that stood between tags in
	// the text.
	Reasoning int
	// Unexamined counts the frames that were larger than Options.MaxFrame.
	Unexamined int
	// Keepalives counts the keepalives that were written.
	Keepalives int
	// InputTokens and OutputTokens are the usage that upstream reported last, 0 if it
	// reported none.
	InputTokens, OutputTokens int64
	// UsageReported says that the model was known to report usage when the
	// finish chunk came.
	UsageReported bool
	// ZeroUsagePassed says that the answer had text and usage 0/0/0, and passed.
	ZeroUsagePassed bool
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
