package options

import (
	"strings"
	"testing"
)

// Options that contradict each other are reported, as far as they are given: a default is no mistake.
func TestConflicts(t *testing.T) {
	for lines, want := range map[string][]string{
		"":                                                       nil,
		"stall_timeout 30s":                                      nil,
		"stall_timeout 15m":                                      nil,
		"stall_timeout 30m":                                      nil, // as docs/operating.md has it
		"stall_timeout 20m\nidle_timeout 15m":                    {"stall_timeout (20m0s) is longer than idle_timeout (15m0s)"},
		"stall_timeout 2m\nidle_timeout 1m":                      {"stall_timeout (2m0s) is longer than idle_timeout (1m0s)"},
		"stall_timeout 20m\nidle_timeout off":                    nil,
		"idle_timeout 5s":                                        nil, // shorter than the default of keepalive
		"idle_timeout 5s\nkeepalive 6s":                          {"keepalive (6s) is longer than idle_timeout (5s)"},
		"stall_timeout 5s\nkeepalive 6s":                         {"keepalive (6s) is longer than stall_timeout (5s)"},
		"idle_timeout 5s\nkeepalive off":                         nil,
		"first_byte_timeout 20m":                                 {"first_byte_timeout (20m0s) is longer than idle_timeout (15m0s)"},
		"first_byte_timeout 2m\nstall_timeout 1m":                {"first_byte_timeout (2m0s) is longer than stall_timeout (1m0s)"},
		"first_byte_timeout 1m\nstall_timeout 2m":                nil,
		"status_line on\nprogress unnamed":                       nil,
		"status_line on\nprogress bare":                          {"status_line has no effect with progress bare"},
		"cards on\nprogress off":                                 {"cards has no effect with progress off"},
		"cards on\nhistory keep":                                 {"cards is on with history keep"},
		"cards on":                                               nil,
		"cards off\nhistory keep":                                nil,
		"history keep":                                           nil, // the defaults of cards and memory are no mistake
		"progress off":                                           nil,
		"progress bare\nhistory keep":                            nil,
		"cards off\nstatus_line off\nprogress comment":           nil,
		"memory results\nhistory keep":                           {"memory has no effect with history keep"},
		"memory off\nhistory keep":                               nil,
		"memory on\nidentity {a} by session":                     {"memory has no effect on the users of identity by session"},
		"memory on\nidentity {a} by prompt":                      nil,
		"history keep\nmax_request 1MB":                          {"max_request has no effect with history keep"},
		"keepalive off\nkeepalive_form comment":                  {"keepalive_form has no effect with keepalive off"},
		"approvals reply\nhistory keep":                          {"approvals is on with history keep"},
		"approvals link http://a/b\nhistory keep":                nil,
		"approvals link http://a text\nhistory keep":             {"approvals is on with history keep"},
		"approvals reply\napproval_timeout 0s":                   {"approvals has no effect with approval_timeout 0s"},
		"approvals reply\napproval_timeout 1m":                   nil,
		"identity {a} by prompt\nhistory keep\nmax_request 1MB":  nil,
		"identity {a} by session\nhistory keep\nmax_request 1MB": nil,
		"identity {a}\nhistory keep\nmax_request 1MB":            {"max_request has no effect with history keep"},
		"approval_timeout 1m":                                    {"approval_timeout has no effect without approvals"},
		"record_max 1MB":                                         {"record_max has no effect without record"},
		"record_max 1MB\nrecord /tmp":                            nil,
		"stall_timeout 20m\nidle_timeout 10m\nstatus_line on\nprogress off\nkeepalive 1h": {"stall_timeout (20m0s)", "keepalive (1h0m0s) is longer than idle_timeout", "keepalive (1h0m0s) is longer than stall_timeout", "status_line"},
	} {
		v := make(Values)
		for line := range strings.Lines(lines) {
			words := strings.Fields(line)
			if err := v.Set(words[0], words[1:]); err != nil {
				t.Fatal(err)
			}
		}
		o, err := v.Compile()
		if err != nil {
			t.Fatal(err)
		}
		got := v.Conflicts(&o)
		for i, c := range got {
			if len(got) != len(want) || !strings.HasPrefix(c, want[i]) {
				t.Errorf("%q: %q, want %q", lines, got, want)
				break
			}
		}
		if len(got) != len(want) {
			t.Errorf("%q: %q, want %q", lines, got, want)
		}
	}
}

// What may be meant by a name that is not known is named: one that differs in two letters at
// most, or begins like it.
func TestUnrecognized(t *testing.T) {
	for name, meant := range map[string]string{
		"stal_timeout": "stall_timeout", "stall-timeout": "stall_timeout", "Stall_Timeout": "stall_timeout", "stalltimeout": "stall_timeout", "keepaliv": "keepalive or keepalive_form",
		"timeout": "", "heartbeat": "", "": "",
	} {
		err := Unrecognized(name, Names()).Error()
		if want := " (did you mean " + meant + "?): must be max_frame, "; meant != "" && !strings.Contains(err, want) || meant == "" && strings.Contains(err, "mean") {
			t.Errorf("%s: %s", name, err)
		}
	}
}
