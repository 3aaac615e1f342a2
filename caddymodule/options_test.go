package caddymodule

import (
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// jsonConfig is a configuration with a hermes handler that has the JSON
// members.
func jsonConfig(members string) []byte {
	if members != "" {
		members = "," + members
	}
	return []byte(`{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{"handler":"hermes"` + members + `},{"handler":"hermes_approvals"},{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:8642"}]}]}]}}}}}`)
}

// compiled returns what the JSON members compile to, after Caddy has accepted
// them.
func compiled(t *testing.T, members string) proxy.Options {
	t.Helper()
	validate(t, jsonConfig(members))
	o, err := compile(onlyHandler(t, jsonConfig(members)))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// The defaults are those of the contract, written out here and in TestDefaults of package proxy.
func TestOptionsDefaults(t *testing.T) {
	want := proxy.DefaultOptions()
	want.Rewrite = rewrite.Options{
		Progress:       rewrite.ProgressEnvelope,
		Imitations:     rewrite.ImitationsAuto,
		Reasoning:      rewrite.ReasoningExtract,
		ErrorFinish:    rewrite.ErrorFinishSplit,
		ZeroUsage:      rewrite.ZeroUsageAuto,
		EmptyAnswer:    rewrite.EmptyAnswerError,
		KeepaliveForm:  rewrite.KeepaliveChunk,
		ParallelWindow: 500 * time.Millisecond,
		MaxFrame:       1 << 20,
	}
	sameOptions(t, compiled(t, ""), want)
}

// Each JSON member changes its option, and nothing else.
func TestOptionsFromJSON(t *testing.T) {
	for members, change := range map[string]func(*proxy.Options){
		`"max_frame":1024`:                                 func(o *proxy.Options) { o.Rewrite.MaxFrame = 1024 },
		`"imitations":"trust"`:                             func(o *proxy.Options) { o.Rewrite.Imitations = rewrite.ImitationsTrust },
		`"reasoning":"keep"`:                               func(o *proxy.Options) { o.Rewrite.Reasoning = rewrite.ReasoningKeep },
		`"history":"keep"`:                                 func(o *proxy.Options) { o.History = proxy.HistoryKeep },
		`"memory":"results"`:                               func(o *proxy.Options) { o.Results = true },
		`"max_request":1024`:                               func(o *proxy.Options) { o.MaxRequest = 1024 },
		`"parallel_window":"75ms"`:                         func(o *proxy.Options) { o.Rewrite.ParallelWindow = 75 * time.Millisecond },
		`"parallel_window":75000000`:                       func(o *proxy.Options) { o.Rewrite.ParallelWindow = 75 * time.Millisecond },
		`"parallel_window":0`:                              func(o *proxy.Options) { o.Rewrite.ParallelWindow = -1 },
		`"progress":"off"`:                                 func(o *proxy.Options) { o.Rewrite.Progress = rewrite.ProgressOff },
		`"status_line":false`:                              func(o *proxy.Options) { o.Rewrite.NoStatusLine = true },
		`"status_line":true`:                               func(*proxy.Options) {},
		`"cards":false`:                                    func(o *proxy.Options) { o.Rewrite.NoCards = true },
		`"cards":true`:                                     func(*proxy.Options) {},
		`"done_grace":"7s"`:                                func(o *proxy.Options) { o.DoneGrace = 7 * time.Second },
		`"done_grace":0`:                                   func(o *proxy.Options) { o.DoneGrace = 1 },
		`"error_finish":"inline"`:                          func(o *proxy.Options) { o.Rewrite.ErrorFinish = rewrite.ErrorFinishInline },
		`"zero_usage":"pass"`:                              func(o *proxy.Options) { o.Rewrite.ZeroUsage = rewrite.ZeroUsagePass },
		`"empty_answer":"pass"`:                            func(o *proxy.Options) { o.Rewrite.EmptyAnswer = rewrite.EmptyAnswerPass },
		`"first_byte_timeout":"1m"`:                        func(o *proxy.Options) { o.FirstByteTimeout = time.Minute },
		`"idle_timeout":"5m"`:                              func(o *proxy.Options) { o.IdleTimeout = 5 * time.Minute },
		`"idle_timeout":0`:                                 func(o *proxy.Options) { o.IdleTimeout = 0 },
		`"stall_timeout":"30s"`:                            func(o *proxy.Options) { o.StallTimeout = 30 * time.Second },
		`"keepalive":"20s"`:                                func(o *proxy.Options) { o.Keepalive = 20 * time.Second },
		`"keepalive":0`:                                    func(o *proxy.Options) { o.Keepalive = 0 },
		`"keepalive_form":"comment"`:                       func(o *proxy.Options) { o.Rewrite.KeepaliveForm = rewrite.KeepaliveComment },
		`"drain_timeout":"25s"`:                            func(o *proxy.Options) { o.DrainTimeout = 25 * time.Second },
		`"drain_timeout":0`:                                func(o *proxy.Options) { o.DrainTimeout = 0 },
		`"announce":false`:                                 func(*proxy.Options) {},
		`"approvals":{"link":"https://a.example/approve"}`: func(*proxy.Options) {},
		`"tool":{"🛰️":"a","🪐":"orrery"}`:                   func(*proxy.Options) {},
	} {
		t.Run(members, func(t *testing.T) {
			want := compiled(t, "")
			change(&want)
			sameOptions(t, compiled(t, members), want)
		})
	}
}

// What is not allowed is refused with a message that names the option, the
// value, and what is allowed.
func TestOptionsRefusedInJSON(t *testing.T) {
	const (
		size   = `: must be a size from 1KiB to 1GiB, such as 1MiB (1048576 bytes)`
		larger = `: must be a size from 1KiB to 1GiB, such as 10MB (10000000 bytes)`
		length = `: must be a duration such as 500ms or 5s, and not negative`
		orOff  = `: must be a duration such as 30s, and not negative, or off (0 in JSON)`
		short  = `: must be at least 1ms; a number in JSON is nanoseconds, so write a string such as "5s"`
		emoji  = `: must be one token with a non-ASCII character and without white space or backticks`
	)
	for members, want := range map[string]string{
		`"max_frame":1023`:       `invalid max_frame "1023"` + size,
		`"max_frame":1073741825`: `invalid max_frame "1073741825"` + size,

		`"max_request":1023`: `invalid max_request "1023"` + larger,

		`"reasoning":"loud"`:  `invalid reasoning "loud": must be extract, keep or drop`,
		`"progress":"Bare"`:   `invalid progress "Bare": must be envelope, bare, unnamed, comment or off`,
		`"zero_usage":"loud"`: `invalid zero_usage "loud": must be auto, error or pass`,

		`"parallel_window":"-1s"`: `invalid parallel_window "-1s"` + length,
		`"drain_timeout":-1`:      `invalid drain_timeout "-1ns"` + length,
		`"idle_timeout":"-1s"`:    `invalid idle_timeout "-1s"` + orOff,
		`"idle_timeout":5`:        `invalid idle_timeout "5ns"` + short,
		`"drain_timeout":999999`:  `invalid drain_timeout "999.999µs"` + short,

		`"tool":{"git":"status"}`:     `invalid tool: emoji "git"` + emoji,
		`"tool":{"🛰️ x":"status"}`:    `invalid tool: emoji "🛰️ x"` + emoji,
		`"tool":{"🛰️` + "`" + `":""}`: "invalid tool: emoji \"🛰️`\"" + emoji,
		`"tool":{"🛰️":""}`:            `invalid tool: tool name is empty: must be the name for the tool's events`,
		`"tool":{"🛰️":"_thinking"}`:   `invalid tool: tool name "_thinking": names that begin with _ are internal and never appear`,
		`"tool":{"🛰":"a","🛰️":"b"}`:   `tool 🛰️ already specified as a: use each emoji only once`,

		`"approvals":{}`: `invalid approvals: nothing is offered: add approvals link <base URL> or approvals reply`,
		`"approvals":{"by":"{http.request.uuid}"}`:            `invalid approvals: nothing is offered: add approvals link <base URL> or approvals reply`,
		`"approvals":{"reply":true,"text":true}`:              `such as approvals link https://hermes.example.com/hermes/approve text`,
		`"approvals":{"link":"https://müller.example/a"}`:     `the host must be as browsers send it, such as xn--mller-kva.example for müller.example`,
		`"approvals":{"link":"ftp://a"}`:                      `http or https without a user, query or fragment, such as https://hermes.example.com/hermes/approve`,
		`"identity":{}`:                                       `invalid identity: no user is named: add header, session or prompt with a placeholder that names the user`,
		`"identity":{"session":"alice"}`:                      `invalid identity "alice": must contain a placeholder that names the user, such as {http.auth.user.id}`,
		`"approvals":{"reply":true},"approval_timeout":"-1s"`: `invalid approval_timeout "-1s"` + length,

		// Of another type: package configjson has all of them.
		`"heartbeat":1`:               `json: unknown field "heartbeat"`,
		`"max_frame":"1MiB"`:          `invalid max_frame "1MiB": must be a whole number, without quotes or a unit: 1048576`,
		`"approvals":{"reply":"on"}`:  `invalid approvals reply "on": must be true or false, without quotes`,
		`"identity":{"cookie":"{a}"}`: `json: unknown field "cookie"`,
	} {
		t.Run(members, func(t *testing.T) {
			err := caddy.Validate(parseConfig(t, jsonConfig(members)))
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.HasSuffix(err.Error(), want) {
				t.Errorf("error\n%v\nwant at its end\n%s", err, want)
			}
			if n := hermesapp.OfProcess().Configurations.Load(); n != 0 {
				t.Errorf("%d configurations are left behind", n)
			}
		})
	}
}

// A value of a Caddyfile in JSON of the other modules is refused alike.
func TestOptionsOfOtherModulesRefusedInJSON(t *testing.T) {
	for members, want := range map[string]string{
		`"handler":"hermes_resume","always":"on"`:                                          `invalid always "on": must be true or false, without quotes`,
		`"handler":"hermes_queue","runs":"3"`:                                              `invalid runs "3": must be a whole number, without quotes or a unit: 3`,
		`"handler":"hermes_approvals","allow_always":"off"`:                                `invalid allow_always "off": must be true or false, without quotes`,
		`"handler":"reverse_proxy","transport":{"protocol":"hermes_resume","detach":"on"}`: `invalid detach "on": must be true or false, without quotes`,
	} {
		config := `{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{` + members + `}]}]}}}}}`
		if err := caddy.Validate(parseConfig(t, []byte(config))); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", members, err, want)
		}
	}
}
