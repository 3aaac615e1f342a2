package doctor

import "fmt"

// A Repair describes a repair that the sidecar makes.
type Repair struct {
	Upstream string `json:"upstream"` // what Hermes sends
	Client   string `json:"client"`   // what the client gets instead
	Releases string `json:"releases"` // of Hermes, that send it

	span span
}

// repairs are the repairs of the contract, in its order.
var repairs = []Repair{
	{span: span{7_000, 8_999}, Upstream: "tool markers, lines such as `💻 ls -la` in the text",
		Client: "tool events with a start and an end; the text without the markers"},
	{span: anyRelease, Upstream: "marker lines that the model writes itself, having learned them from histories",
		Client: "the text without them; and Hermes gets histories without them"},
	{span: span{9_000, 11_999}, Upstream: "tool events without an id, and without an end",
		Client: "the same events with an id, and an end for each"},
	{span: span{12_000, newest}, Upstream: "tool events that are not chunks, which break strict clients",
		Client: "the same events with the members of a chunk added"},
	{span: span{7_000, newest}, Upstream: "tools that Open WebUI does not show",
		Client: "the same events with what Open WebUI draws: a card for each tool, stored with the message"},
	{span: span{storesAtOnce, newest}, Upstream: "tool events without the arguments and the result of the tool",
		Client: "the same events with args and result, and cards that show them"},
	{span: span{7_000, newest}, Upstream: "histories without the tools of earlier turns, so the agent does not know what it did",
		Client: "nothing new; Hermes gets a record of them in the user's next message"},
	{span: span{newInG4, newest}, Upstream: "hermes.status and, since 0.22, approval.request, which are not chunks either",
		Client: "the same events with the members of a chunk added"},
	{span: span{oldest, 12_999}, Upstream: "reasoning between tags such as <think> in the text",
		Client: "the same text in delta.reasoning_content, without the tags"},
	{span: span{oldest, 17_999}, Upstream: "a crash that ends with stop and a usage of zero tokens",
		Client: "an error, the finish reason error, and [DONE]"},
	{span: span{18_000, newest}, Upstream: "a failure inside the finish chunk, where half of the clients lose it",
		Client: "the error in a frame of its own, and then the finish chunk"},
	{span: span{oldest, 21_999}, Upstream: "stop without any answer, or right after a tool",
		Client: "an error with the code empty_answer"},
	{span: span{newInG5, newest}, Upstream: "stop after “⚠️ No reply: …” of a model that stayed silent, or right after a tool",
		Client: "the text, and an error with the code empty_answer"},
	{span: span{newInG5, newest}, Upstream: "the key that a provider quotes in its error, after “Provider said: ” in the text",
		Client: "the text without the key"},
	{span: anyRelease, Upstream: "a stream that breaks off, or no connection at all",
		Client: "an end for each open tool, an error and [DONE]; HTTP 502 if nothing was received"},
	{span: span{oldest, 13_999}, Upstream: "an answer that is not streamed, with an error as its text",
		Client: "HTTP 502 with the error"},
	{span: span{8_000, newest}, Upstream: "streams of /v1/responses, /v1/runs and /api/sessions that break off",
		Client: "a last event that says so, and a clean end"},
	{span: anyRelease, Upstream: "silence, while a tool works",
		Client: "a keepalive every 10 s"},
}

// conclude returns the releases that the agent may be, and fills in the repairs and the options
// for them.
func (e *examination) conclude() span {
	releases := e.releases()
	for _, r := range repairs {
		if r.span.meets(releases) {
			r.Releases = r.span.String()
			e.Repairs = append(e.Repairs, r)
		}
	}
	e.Options = options(releases, e.reading, e.subject.set)
	return releases
}

// options returns the options that fit the releases s and, if r is not nil, the agent's answer. It
// leaves out the options in set, which are configured already.
func options(s span, r *reading, set map[string]bool) []Option {
	if r == nil {
		r = new(reading)
	}
	hasMarkers := s.meets(span{7_000, 8_999}) && !r.events
	imitated, passed, drawn := r.summary.Imitations, r.summary.ZeroUsagePassed, ""
	if n := r.summary.Tools; n > 0 {
		drawn = fmt.Sprintf(" (%d of them in this answer)", n)
	}
	of := []Option{}
	for _, o := range []struct {
		fits        bool
		name, value string
		when, why   string
	}{
		{hasMarkers && r.foreign, "imitations", "trust", "something between this command and Hermes rewrites the chunks, as the answer shows",
			"Markers of real tools then arrive in pieces or within other text, and look like imitations."},
		{hasMarkers && !r.foreign && imitated > 0, "imitations", "trust", "only if something between the sidecar and Hermes re-chunks the text",
			fmt.Sprintf("The answer contains marker lines (%d) in pieces or within other text. ", imitated) +
				"If nothing stands in between, the model wrote them itself: no tool ran, and they are removed by default."},
		{passed && s.from >= 18_000, "zero_usage", "pass", "always, with this provider",
			"The answer has text and a usage of zero tokens. This Hermes reports its failures itself, so its provider reports no usage."},
		{passed && s.from < 18_000, "zero_usage", "pass", "if the answer is whole: then the provider reports no usage",
			"The answer has text and a usage of zero tokens. A crash before Hermes 0.18 looks the same, and pass does not report it."},
		{s.to >= 7_000, "cards", "off", "if people use Open WebUI 0.6 or 0.9",
			"0.9 draws each card" + drawn + " twice, and 0.6 draws none. Without cards, both show the tool that runs as a status above the message."},
		{s.to >= 7_000, "progress", "unnamed", "for clients that break on events with a name",
			"These are older SDKs of OpenAI (Python 1.97, Node 4 and 5.9) and go-openai, as docs/clients.md shows. " +
				"A client can also ask for this itself, with X-Hermes-Tool-Progress: unnamed."},
		{true, "stall_timeout", "30m", "always, set to more than your longest tool takes",
			"Keepalives continue while Hermes sends nothing, so clients do not notice that Hermes is frozen."},
	} {
		if o.fits && !set[o.name] {
			of = append(of, Option{o.name + " " + o.value, o.when, o.why})
		}
	}
	return of
}
