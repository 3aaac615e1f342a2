package contract

// Params are what is particular to one stream.
type Params struct {
	// Active says that the stream is one of chat completions from its first
	// byte on: the request's path ends in /chat/completions. Otherwise it
	// becomes active at its first chunk (contract section 0).
	Active bool
	// Responses says that the stream is one of /v1/responses, by the request's path.
	// What such a stream is its events have to show (contract, "The other
	// streams"), but secrets leave its errors from the first on.
	Responses bool
	// RunID is the id of the run whose events the stream has, by the request's
	// path, empty for others: only then is it a stream of /v1/runs.
	RunID string
	// SessionID is the id of the session in which the stream is, by the request's
	// path, empty for others: only then is it a stream of /api/sessions.
	SessionID string
	// Progress overrides Options.Progress unless it is empty.
	Progress Progress
	// ID, which is asked at most once, and Created, in Unix seconds, are used in
	// an error finish when no chunk has come. Nil means an empty id.
	ID      func() string
	Created int64
	// Usage remembers which models report usage, nil for no memory.
	Usage UsageMemory
	// OnTool is called when a tool starts or ends, in order, whatever form the
	// client gets it in. Nil for nobody.
	OnTool func(ToolEvent)
	// Explain is called with what becomes of each piece of the stream, and of
	// its end. Nil for nobody.
	Explain func(Step)
}

// Summary is what can be said of a stream.
type Summary struct {
	// ID and Model are those of the completion, empty while no chunk has come,
	// or of the response; ID is also that of the run.
	ID, Model string
	// FinishReason is the one that was sent, empty when none was.
	FinishReason string
	// Code is the code of the error that the stream ended with, empty when it
	// ended well.
	Code string
	// Frames counts complete frames with data, Chunks those that are chunks.
	Frames, Chunks int
	// Tools counts tool starts, Markers the ones that were markers.
	Tools, Markers int
	// Imitations counts the markers that were stripped and no tool.
	Imitations int
	// Reasoning counts the stretches of reasoning that stood between tags in
	// the text.
	Reasoning int
	// Unexamined counts frames that were larger than Options.MaxFrame.
	Unexamined int
	// Keepalives counts those written.
	Keepalives int
	// InputTokens and OutputTokens are the usage that upstream has reported
	// last, 0 when it has reported none.
	InputTokens, OutputTokens int64
	// UsageReported says that the model was known to report usage when the
	// finish chunk came.
	UsageReported bool
	// ZeroUsagePassed says that the answer had text and usage 0/0/0 and has
	// been let pass.
	ZeroUsagePassed bool
}

// UsageMemory remembers which models of an upstream have reported usage, and
// whether the upstream reports its failures itself. With it, an answer whose usage
// is 0/0/0 can be told from one of a provider that never reports any (contract
// section 3, third rule of "false stop").
type UsageMemory interface {
	// Reported reports whether an answer of the model that has no usage is one of
	// an agent that failed: the model has reported usage, and upstream is not
	// known to report its failures.
	Reported(model string) bool
	// Report records that an answer of the model has reported usage.
	Report(model string)
	// Missed records that an answer of the model with text and without usage has
	// been taken for a crash, because Reported said so. After three in a row the
	// model is forgotten, until Report.
	Missed(model string)
	// ReportsFailures records whether upstream reports its failures itself: true
	// once it has shown that it does, false once it has shown that it is too old.
	ReportsFailures(does bool)
}
