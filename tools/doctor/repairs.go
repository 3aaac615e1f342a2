package doctor

// A Repair is one that the sidecar makes.
type Repair struct {
	Upstream string `json:"upstream"` // what Hermes sends
	Client   string `json:"client"`   // what the client gets instead
	Releases string `json:"releases"` // of Hermes, that send it

	span span
}

// repairs are those of the contract, in its order.
var repairs = []Repair{
	{span: span{minor(7), last(8)}, Upstream: "tool markers, lines such as `💻 ls -la` in the text",
		Client: "tool events with a start and an end; the text without the markers"},
	{span: anyRelease, Upstream: "marker lines that the model has written itself, which it learns from markers in histories",
		Client: "the text without them; and Hermes gets histories without them"},
	{span: span{minor(9), last(11)}, Upstream: "tool events without an id, and without an end",
		Client: "the same events with an id, and an end for each"},
	{span: span{minor(12), newest}, Upstream: "tool events that are no chunks, on which strict clients break",
		Client: "the same events with the members of a chunk in front"},
	{span: span{newInG4, newest}, Upstream: "hermes.status and, since 0.22, approval.request, which are no chunks either",
		Client: "the same events with the members of a chunk in front"},
	{span: span{oldest, last(12)}, Upstream: "reasoning between tags such as <think> in the text",
		Client: "the same text in delta.reasoning_content, without the tags"},
	{span: span{oldest, last(17)}, Upstream: "a crash that ends with stop and a usage of zero tokens",
		Client: "an error, the finish reason error, and [DONE]"},
	{span: span{minor(18), newest}, Upstream: "a failure inside the finish chunk, where half of the clients lose it",
		Client: "the error in a frame of its own, and then the finish chunk"},
	{span: span{oldest, last(21)}, Upstream: "stop without any answer, or right after a tool",
		Client: "an error with the code empty_answer"},
	{span: span{newInG5, newest}, Upstream: "stop after “⚠️ No reply: …” of a model that stayed silent, or right after a tool",
		Client: "the text, and an error with the code empty_answer"},
	{span: span{newInG5, newest}, Upstream: "the key that a provider quotes in its error, in the text after “Provider said: ”",
		Client: "the text without the key"},
	{span: anyRelease, Upstream: "a stream that breaks off, or no connection at all",
		Client: "an end for each open tool, an error and [DONE]; HTTP 502 if nothing had come"},
	{span: span{oldest, last(13)}, Upstream: "an answer that is not streamed, with an error as its text",
		Client: "HTTP 502 with the error"},
	{span: span{minor(8), newest}, Upstream: "streams of /v1/responses, /v1/runs and /api/sessions that break off",
		Client: "a last event that says so, and a clean end"},
	{span: anyRelease, Upstream: "silence, while a tool works",
		Client: "a keepalive every 10 s"},
}

// repairsOf returns the repairs of what some of the releases send.
func repairsOf(s span) []Repair {
	of := []Repair{}
	for _, r := range repairs {
		if r.span.meets(s) {
			r.Releases = r.span.String()
			of = append(of, r)
		}
	}
	return of
}
