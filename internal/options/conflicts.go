package options

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Conflicts returns a sentence for each given option that has no effect, or does harm, because of
// another one. o is what v compiles to. A conflict is no error: streams are repaired all the same,
// and a request may ask for another form of tool events.
func (v Values) Conflicts(o *proxy.Options) (all []string) {
	add := func(name string, conflict bool, format string, args ...any) {
		if _, given := v[name]; given && conflict {
			all = append(all, name+" "+fmt.Sprintf(format, args...))
		}
	}
	// A stall_timeout longer than the default of idle_timeout is what docs/operating.md
	// recommends: comments of Hermes keep a stream from being idle.
	_, idle := v["idle_timeout"]
	add("stall_timeout", idle && o.IdleTimeout > 0 && o.StallTimeout > o.IdleTimeout,
		"(%s) is longer than idle_timeout (%s), which ends a stream without comments first", o.StallTimeout, o.IdleTimeout)
	for _, late := range []struct {
		name, limit string
		after, end  time.Duration
		why         string
	}{
		{"first_byte_timeout", "idle_timeout", o.FirstByteTimeout, o.IdleTimeout, "which ends the wait first"},
		{"first_byte_timeout", "stall_timeout", o.FirstByteTimeout, o.StallTimeout, "which ends the wait first"},
		{"keepalive", "idle_timeout", o.Keepalive, o.IdleTimeout, "so none is sent"},
		{"keepalive", "stall_timeout", o.Keepalive, o.StallTimeout, "so none is sent"},
	} {
		add(late.name, late.end > 0 && late.after > late.end, "(%s) is longer than %s (%s), %s", late.after, late.limit, late.end, late.why)
	}
	add("keepalive", o.Keepalive >= time.Minute && (o.IdleTimeout == 0 || o.Keepalive <= o.IdleTimeout) && (o.StallTimeout == 0 || o.Keepalive <= o.StallTimeout),
		"(%s) is a minute or longer: proxies and clients close connections that are silent for that long; write 10s, or off", o.Keepalive)
	form := o.Rewrite.ProgressForm(&rewrite.Params{})
	bare := !form.Envelops()
	keep := o.History == proxy.HistoryKeep
	add("status_line", bare && v["status_line"] == true, "has no effect with progress %s: only envelope and unnamed include it", form)
	add("cards", bare && v["cards"] == true, "has no effect with progress %s: only envelope and unnamed include them", form)
	add("cards", keep && v["cards"] == true, "is on with history keep: clients send the cards back, and Hermes gets them as tool calls")
	who, _ := v["identity"].(Identity)
	add("memory", keep && v["memory"] != "off", "has no effect with history keep: no history is changed")
	add("memory", who.Session != "" && v["memory"] != "off", "has no effect on the users of identity by session: Hermes keeps their histories itself")
	add("max_request", keep && who.Session == "" && who.Prompt == "", "has no effect with history keep: no request is read")
	offers, _ := v["approvals"].(Approvals)
	add("approvals", (offers.Text || offers.Reply) && keep, "is on with history keep: clients send the paragraphs back, and models learn to write them")
	add("approvals", offers.Replicas != nil && offers.Link == "", "replicas has no effect without approvals link: replicas answer links, not replies")
	timeout, given := v["approval_timeout"].(caddy.Duration)
	add("approvals", given && timeout == 0, "has no effect with approval_timeout 0s")
	add("approval_timeout", v["approvals"] == nil, "has no effect without approvals")
	add("keepalive_form", o.Keepalive == 0, "has no effect with keepalive off")
	add("record_max", v["record"] == nil, "has no effect without record")
	return all
}
