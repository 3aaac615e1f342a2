package doctor

import "fmt"

// options returns the options that fit the releases and, if it is not nil, a stream of
// the agent. Those in set stand in the configuration already.
func options(s span, r *reading, set map[string]bool) []Option {
	of := []Option{}
	add := func(is bool, name, value, when, why string) {
		if is && !set[name] {
			of = append(of, Option{name + " " + value, when, why})
		}
	}
	if r == nil {
		r = new(reading)
	}
	old := s.meets(span{minor(7), last(8)}) && !r.events
	imitated, cut := r.summary.Imitations, "Markers of real tools then come in pieces or between other text, and look like those that a model has imitated."
	switch {
	case r.foreign && old:
		add(true, "imitations", "trust", "something between this command and Hermes writes the chunks anew, as the answer shows", cut)
	case imitated > 0 && old:
		add(true, "imitations", "trust", "only if something between the sidecar and Hermes cuts the text of chunks anew",
			fmt.Sprintf("The answer has marker lines (%d) in pieces or between other text. ", imitated)+
				"If nothing is between, the model has written them itself: no tool ran, and they are stripped by default.")
	}
	passed := r.summary.ZeroUsagePassed
	add(passed && s.from >= minor(18), "zero_usage", "pass", "always, with this provider",
		"The answer has text and a usage of zero tokens. This Hermes reports its failures itself, so its provider reports no usage.")
	add(passed && s.from < minor(18), "zero_usage", "pass", "if the answer is whole: then the provider reports no usage",
		"The answer has text and a usage of zero tokens. A crash before Hermes 0.18 looks the same, and with pass it is no error.")
	drawn := ""
	if n := r.summary.Tools; n > 0 {
		drawn = fmt.Sprintf(" (%d of them in this answer)", n)
	}
	add(s.to >= minor(7), "cards", "on", "if people use Open WebUI",
		"Open WebUI shows no tool of a Hermes behind an API by itself. With cards it draws each one"+drawn+" between the texts, and stores it with the message. "+
			"On the wire, a tool's events get the members type, output_index and item, and one chunk follows its end. Other clients show no difference.")
	add(s.to >= minor(7), "progress", "unnamed", "for clients that break on events with a name",
		"These are older SDKs of OpenAI (Python 1.97, Node 4 and 5.9) and go-openai, as docs/clients.md shows. "+
			"A client can also ask for itself: X-Hermes-Tool-Progress: unnamed.")
	add(true, "stall_timeout", "30m", "always, with more than the longest tool takes",
		"Keepalives go on while Hermes sends nothing, so clients do not notice a Hermes that is frozen.")
	return of
}
