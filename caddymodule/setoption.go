package caddymodule

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// subdirectives lists the options, in the order of the syntax at
// UnmarshalCaddyfile. hermes_proxy knows its own by it, and hermes-proxy has a
// flag for each.
var subdirectives = []string{
	"max_frame", "imitations", "reasoning", "history", "max_request", "parallel_window",
	"tool", "progress", "status_line", "done_grace", "error_finish", "zero_usage", "empty_answer",
	"first_byte_timeout", "idle_timeout", "stall_timeout", "keepalive", "keepalive_form",
	"drain_timeout", "record", "record_max",
}

// setOption sets one option from its arguments, as a line of the
// Caddyfile or a flag of hermes-proxy has them. Errors name the option, what was
// given and what is allowed; where it stands is for the caller to add.
func (h *Handler) setOption(option string, args []string) (err error) {
	switch option {
	case "max_frame":
		h.MaxFrame, err = sizeArg(option, args)
	case "imitations":
		h.Imitations, err = enumArg(option, args, rewrite.ImitationsValues())
	case "reasoning":
		h.Reasoning, err = enumArg(option, args, rewrite.ReasoningValues())
	case "history":
		h.History, err = enumArg(option, args, proxy.HistoryValues())
	case "max_request":
		h.MaxRequest, err = sizeArg(option, args)
	case "parallel_window":
		h.ParallelWindow, err = durationArg(option, args)
	case "tool":
		err = h.setTool(args)
	case "progress":
		h.Progress, err = enumArg(option, args, rewrite.ProgressForms())
	case "status_line":
		var v string
		v, err = enumArg(option, args, []string{"on", "off"})
		h.StatusLine = v == "on"
	case "done_grace":
		h.DoneGrace, err = durationArg(option, args)
	case "error_finish":
		h.ErrorFinish, err = enumArg(option, args, rewrite.ErrorFinishForms())
	case "zero_usage":
		h.ZeroUsage, err = enumArg(option, args, rewrite.ZeroUsageValues())
	case "empty_answer":
		h.EmptyAnswer, err = enumArg(option, args, rewrite.EmptyAnswerValues())
	case "first_byte_timeout":
		h.FirstByteTimeout, err = timeoutArg(option, args)
	case "idle_timeout":
		h.IdleTimeout, err = durationArg(option, args)
	case "stall_timeout":
		h.StallTimeout, err = timeoutArg(option, args)
	case "keepalive":
		h.Keepalive, err = durationArg(option, args)
	case "keepalive_form":
		h.KeepaliveForm, err = enumArg(option, args, rewrite.KeepaliveForms())
	case "drain_timeout":
		h.DrainTimeout, err = durationArg(option, args)
	case "record":
		h.Record, err = oneArg(option, args, "a directory")
	case "record_max":
		h.RecordMax, err = sizeArg(option, args)
	default:
		err = fmt.Errorf("unrecognized subdirective %q: must be %s", option, choice(subdirectives))
	}
	return err
}

// setTool adds a tool, whose arguments are an emoji and a name.
func (h *Handler) setTool(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("wrong number of arguments for tool: got %d, must be two: an emoji and a name", len(args))
	}
	seen := make(map[string]string, len(h.Tools))
	for emoji, name := range h.Tools {
		seen[bareEmoji(emoji)] = name
	}
	emoji, name := args[0], args[1]
	if err := checkTool(seen, emoji, name); err != nil {
		return err
	}
	if h.Tools == nil {
		h.Tools = make(map[string]string)
	}
	h.Tools[emoji] = name
	return nil
}

// oneArg returns the only argument of an option; allowed says in errors what
// it must be.
func oneArg(option string, args []string, allowed string) (string, error) {
	if len(args) != 1 {
		return "", fmt.Errorf("wrong number of arguments for %s: got %d, must be one: %s", option, len(args), allowed)
	}
	return args[0], nil
}

// enumArg returns the only argument of an option, one of the allowed values.
func enumArg[T ~string](option string, args []string, allowed []T) (string, error) {
	v, err := oneArg(option, args, choice(allowed))
	if err != nil {
		return "", err
	}
	// The empty value, which stands for the default in JSON, is a slip here.
	if err := checkEnum(option, v, allowed); err != nil || v == "" {
		return "", invalidEnum(option, v, allowed)
	}
	return v, nil
}

// sizeArg returns the only argument of an option as a size in bytes.
func sizeArg(option string, args []string) (int64, error) {
	v, err := oneArg(option, args, "a size")
	if err != nil {
		return 0, err
	}
	n, err := humanize.ParseBytes(v)
	if err != nil || n > maxSize || !sizeAllowed(int64(n)) {
		return 0, invalidSize(option, v)
	}
	return int64(n), nil
}

// durationArg returns the only argument of an option as a duration. Where the
// option can be off, off is 0.
func durationArg(option string, args []string) (*caddy.Duration, error) {
	v, err := timeoutArg(option, args)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// timeoutArg is durationArg for options whose default is off.
func timeoutArg(option string, args []string) (caddy.Duration, error) {
	allowed := "a duration"
	off := mayBeOff(option)
	if off {
		allowed = "a duration or off"
	}
	v, err := oneArg(option, args, allowed)
	if err != nil {
		return 0, err
	}
	if off && v == "off" {
		return 0, nil
	}
	t, err := caddy.ParseDuration(v)
	if err != nil || t < 0 {
		return 0, invalidDuration(option, v)
	}
	return caddy.Duration(t), nil
}
