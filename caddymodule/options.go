package caddymodule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Bounds of max_frame and max_request in bytes. A frame below the lower one
// could not even hold a chunk; the upper one keeps a typing error from taking
// all memory.
const (
	minSize = 1 << 10
	maxSize = 1 << 30
)

// options compiles the configuration. Values that are not allowed are
// Validate's to refuse; only a tool is refused here, because it has to be
// compiled.
func (h *Handler) options() (proxy.Options, error) {
	if err := h.checkTools(); err != nil {
		return proxy.Options{}, err
	}
	tools, err := rewrite.NewTools(h.Tools)
	if err != nil {
		return proxy.Options{}, fmt.Errorf("invalid tool: %w", err)
	}

	o := proxy.DefaultOptions()
	o.Rewrite.Tools = tools
	o.Rewrite.StatusLine = h.StatusLine
	o.Rewrite.Imitations = rewrite.Imitations(h.Imitations)
	o.Rewrite.Reasoning = rewrite.Reasoning(h.Reasoning)
	o.Rewrite.Progress = rewrite.Progress(h.Progress)
	o.Rewrite.ErrorFinish = rewrite.ErrorFinish(h.ErrorFinish)
	o.Rewrite.ZeroUsage = rewrite.ZeroUsage(h.ZeroUsage)
	o.Rewrite.EmptyAnswer = rewrite.EmptyAnswer(h.EmptyAnswer)
	o.Rewrite.KeepaliveForm = rewrite.KeepaliveForm(h.KeepaliveForm)
	if h.MaxFrame != 0 {
		o.Rewrite.MaxFrame = int(h.MaxFrame)
	}
	if w := h.ParallelWindow; w != nil {
		o.Rewrite.ParallelWindow = time.Duration(*w)
		if *w == 0 {
			// Zero means the default there, and a negative window that every
			// start completes the tools before it.
			o.Rewrite.ParallelWindow = -1
		}
	}

	o.History = proxy.History(h.History)
	if h.MaxRequest != 0 {
		o.MaxRequest = h.MaxRequest
	}
	o.FirstByteTimeout = time.Duration(h.FirstByteTimeout)
	o.StallTimeout = time.Duration(h.StallTimeout)
	set(&o.IdleTimeout, h.IdleTimeout)
	set(&o.Keepalive, h.Keepalive)
	set(&o.DoneGrace, h.DoneGrace)
	if o.DoneGrace == 0 {
		o.DoneGrace = 1 // zero means no limit there, and no grace here
	}
	set(&o.DrainTimeout, h.DrainTimeout)
	return o, nil
}

// set overwrites a default with a configured duration.
func set(dst *time.Duration, d *caddy.Duration) {
	if d != nil {
		*dst = time.Duration(*d)
	}
}

// check reports the first option whose value is not allowed.
func (h *Handler) check() error {
	for _, err := range []error{
		checkSize("max_frame", h.MaxFrame),
		checkEnum("imitations", h.Imitations, rewrite.ImitationsValues()),
		checkEnum("reasoning", h.Reasoning, rewrite.ReasoningValues()),
		checkEnum("history", h.History, proxy.HistoryValues()),
		checkSize("max_request", h.MaxRequest),
		checkSize("record_max", h.RecordMax),
		checkEnum("progress", h.Progress, rewrite.ProgressForms()),
		checkEnum("error_finish", h.ErrorFinish, rewrite.ErrorFinishForms()),
		checkEnum("zero_usage", h.ZeroUsage, rewrite.ZeroUsageValues()),
		checkEnum("empty_answer", h.EmptyAnswer, rewrite.EmptyAnswerValues()),
		checkEnum("keepalive_form", h.KeepaliveForm, rewrite.KeepaliveForms()),
		checkDuration("parallel_window", h.ParallelWindow),
		checkDuration("done_grace", h.DoneGrace),
		checkDuration("first_byte_timeout", &h.FirstByteTimeout),
		checkDuration("idle_timeout", h.IdleTimeout),
		checkDuration("stall_timeout", &h.StallTimeout),
		checkDuration("keepalive", h.Keepalive),
		checkDuration("drain_timeout", h.DrainTimeout),
	} {
		if err != nil {
			return err
		}
	}
	return h.checkTools()
}

// checkTools reports the first tool that is not allowed, in the order of the
// emoji, so that the same configuration gives the same error.
func (h *Handler) checkTools() error {
	seen := make(map[string]string, len(h.Tools))
	for _, emoji := range slices.Sorted(maps.Keys(h.Tools)) {
		if err := checkTool(seen, emoji, h.Tools[emoji]); err != nil {
			return err
		}
	}
	return nil
}

// checkTool refuses a tool that rewrite.CheckTool refuses, and an emoji that is
// among those seen, to which it is added. Emoji that differ only in the
// variation selector U+FE0F are the same.
func checkTool(seen map[string]string, emoji, name string) error {
	if err := rewrite.CheckTool(emoji, name); err != nil {
		return fmt.Errorf("invalid tool: %w", err)
	}
	bare := bareEmoji(emoji)
	if first, ok := seen[bare]; ok {
		return fmt.Errorf("tool %s already specified as %s: give each emoji once", emoji, first)
	}
	seen[bare] = name
	return nil
}

// bareEmoji is the emoji without the variation selector U+FE0F.
func bareEmoji(emoji string) string { return strings.ReplaceAll(emoji, "\ufe0f", "") }

// checkSize refuses a size in bytes outside its bounds; 0 stands for the default.
func checkSize(option string, n int64) error {
	if n == 0 || sizeAllowed(n) {
		return nil
	}
	return invalidSize(option, fmt.Sprint(n))
}

func sizeAllowed(n int64) bool { return n >= minSize && n <= maxSize }

// invalidSize is the error of a size; shown is how the configuration writes it.
func invalidSize(option, shown string) error {
	example := "1MiB (1048576 bytes)"
	switch option {
	case "max_request":
		example = "10MB (10000000 bytes)"
	case "record_max":
		example = "100MB (100000000 bytes)"
	}
	return fmt.Errorf("invalid %s %q: must be a size from 1KiB to 1GiB, such as %s", option, shown, example)
}

// checkEnum refuses a value that is not among the allowed ones. The empty
// value stands for the default.
func checkEnum[T ~string](option, value string, allowed []T) error {
	if value == "" || slices.Contains(allowed, T(value)) {
		return nil
	}
	return invalidEnum(option, value, allowed)
}

func invalidEnum[T ~string](option, value string, allowed []T) error {
	return fmt.Errorf("invalid %s %q: must be %s", option, value, choice(allowed))
}

// choice writes the allowed values as a sentence does: a, b or c.
func choice[T ~string](allowed []T) string {
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// mayBeOff reports whether a duration may be off, which JSON writes as 0.
func mayBeOff(option string) bool {
	switch option {
	case "first_byte_timeout", "idle_timeout", "stall_timeout", "keepalive":
		return true
	}
	return false
}

// checkDuration refuses a negative duration, and one so short that it must be a
// number that was not meant as nanoseconds; nil stands for the default.
func checkDuration(option string, d *caddy.Duration) error {
	switch {
	case d == nil || *d == 0 || time.Duration(*d) >= time.Millisecond:
		return nil
	case *d > 0:
		return fmt.Errorf("invalid %s %q: must be at least 1ms; a number in JSON is nanoseconds, so write a string such as \"5s\"",
			option, time.Duration(*d))
	}
	return invalidDuration(option, time.Duration(*d).String())
}

func invalidDuration(option, shown string) error {
	if mayBeOff(option) {
		return fmt.Errorf("invalid %s %q: must be a duration such as 30s, not negative, or off (0 in JSON)", option, shown)
	}
	return fmt.Errorf("invalid %s %q: must be a duration such as 500ms or 5s, not negative", option, shown)
}
