package caddymodule

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// flags defines the flags of hermes-proxy, which are read into c. Those of
// caddy reverse-proxy have its names, shorthands and meanings
// (reverseproxy/command.go); each option of the handler is one more.
func (c *proxyCommand) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&c.from, "from", "f", proxyFrom, "Address on which to receive traffic")
	f.StringSliceVarP(&c.to, "to", "t", []string{proxyTo}, "Upstream address(es) to which traffic should be sent")
	f.StringSliceVarP(&c.bind, "bind", "b", nil, "Interface(s) to listen on, each an IP address (default: as --from says)")
	f.BoolVarP(&c.changeHost, "change-host-header", "c", false, "Set upstream Host header to address of upstream")
	f.BoolVar(&c.insecure, "insecure", false, "Disable TLS verification (WARNING: DISABLES SECURITY BY NOT VERIFYING TLS CERTIFICATES!)")
	f.BoolVarP(&c.disableRedirects, "disable-redirects", "r", false, "Disable HTTP->HTTPS redirects")
	f.BoolVarP(&c.internalCerts, "internal-certs", "i", false, "Use internal CA for issuing certs")
	f.BoolVar(&c.installTrust, "install-trust", false, "Put the internal CA's root certificate in the trust stores of this system")
	f.StringArrayVarP(&c.headerUp, "header-up", "H", nil, `Set a request header to send to the upstream (format: "Field: value")`)
	f.StringArrayVarP(&c.headerDown, "header-down", "d", nil, `Set a response header to send back to the client (format: "Field: value")`)
	f.BoolVar(&c.accessLog, "access-log", false, "Enable the access log")
	f.BoolVarP(&c.debug, "debug", "v", false, "Enable verbose debug logs")

	c.options = newOptionFlags(cmd, subdirectives)
}

// optionFlags are the flags of options, by the option's name.
type optionFlags map[string]*optionFlag

// newOptionFlags defines the flags of the options.
func newOptionFlags(cmd *cobra.Command, options []string) optionFlags {
	o := make(optionFlags, len(options))
	for _, option := range options {
		o[option] = newOptionFlag(option)
		cmd.Flags().Var(o[option], flagName(option), optionHelp[option].usage)
	}
	return o
}

// set sets the options of h that have been given. Errors are those of the
// Caddyfile, with the flag in front.
func (o optionFlags) set(h *Handler) error {
	for _, option := range subdirectives {
		if o[option] == nil {
			continue
		}
		for _, args := range o[option].lines(option) {
			if err := h.setOption(option, args); err != nil {
				return fmt.Errorf("--%s: %w", flagName(option), err)
			}
		}
	}
	return nil
}

// flagName is the flag of an option: --keepalive-form is keepalive_form.
func flagName(option string) string { return strings.ReplaceAll(option, "_", "-") }

// An optionFlag is the flag of an option (a pflag.Value). It takes any text:
// what is allowed is for setOption to say.
type optionFlag struct {
	given    []string // in the order of the command line
	standard string   // the option's default
	values   string   // that it takes, for the help
}

func newOptionFlag(option string) *optionFlag {
	help := optionHelp[option]
	return &optionFlag{standard: help.standard, values: help.values}
}

// String is the value that counts.
func (o *optionFlag) String() string {
	if n := len(o.given); n > 0 {
		return o.given[n-1]
	}
	return o.standard
}

// Set adds a value.
func (o *optionFlag) Set(v string) error {
	o.given = append(o.given, v)
	return nil
}

// Type is what the help shows behind the flag.
func (o *optionFlag) Type() string { return o.values }

// lines are the arguments that lines of a Caddyfile would have: none where
// nothing was given, and those of the last value for all options but tool,
// whose values are an emoji and a name.
func (o *optionFlag) lines(option string) (lines [][]string) {
	if option == "tool" {
		for _, v := range o.given {
			lines = append(lines, strings.Fields(v))
		}
		return lines
	}
	if len(o.given) > 0 {
		lines = [][]string{{o.String()}}
	}
	return lines
}

// optionHelp has every option: the values it takes, its default, and what it
// is. That values and defaults are the real ones is for
// TestProxyCommandHelpTellsTheTruth to see.
var optionHelp = map[string]struct{ values, standard, usage string }{
	"max_frame":          {"size", "1MiB", "Larger frames pass unexamined"},
	"imitations":         {"strip|keep|trust", "strip", "Markers that no tool stands behind"},
	"reasoning":          {"extract|keep|drop", "extract", "Reasoning between tags in the text"},
	"history":            {"heal|keep", "heal", "Markers in the histories that clients send"},
	"max_request":        {"size", "10MB", "Larger requests pass as they are"},
	"parallel_window":    {"duration", "500ms", "Tools that start closer together than this run in parallel"},
	"tool":               {"'emoji name'", "", `Name of a tool whose emoji Hermes lacks, repeatable, such as "🛰️ satellite"`},
	"progress":           {"envelope|bare|unnamed|comment|off", "envelope", "Form of tool events"},
	"status_line":        {"on|off", "off", "Add a status to tool events, which Open WebUI shows"},
	"done_grace":         {"duration", "5s", "How long to wait for the end of a stream after its finish chunk"},
	"error_finish":       {"split|inline", "split", "Errors in a frame before the finish chunk, or in it"},
	"empty_answer":       {"error|pass", "error", "What an answer is that says nothing, or ends on a tool"},
	"zero_usage":         {"auto|error|pass", "auto", "What an answer with text and a usage of zero tokens is"},
	"first_byte_timeout": {"duration|off", "off", "Limit for upstream to send its first byte"},
	"idle_timeout":       {"duration|off", "15m", "Limit for upstream to send nothing at all"},
	"stall_timeout":      {"duration|off", "off", "Limit for upstream to send nothing but comments"},
	"keepalive":          {"duration|off", "10s", "Silence towards the client after which a keepalive is sent"},
	"keepalive_form":     {"chunk|comment", "chunk", "Form of a keepalive"},
	"drain_timeout":      {"duration", "10s", "How long open streams may go on when the proxy stops"},
	"record":             {"directory", "", "Directory to record streams in, as upstream sends them"},
	"record_max":         {"size", "100MB", "What all recordings may take together"},
}
