// Package command has helpers for the commands of the sidecar: flags for the options of the
// handler, arguments, and exit statuses.
package command

import (
	"errors"
	"fmt"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
)

// OptionFlags are the flags of options, in the order of the table.
type OptionFlags []*optionFlag

// NewOptionFlags defines a flag for each of the options.
func NewOptionFlags(cmd *cobra.Command, table []*options.Option) (flags OptionFlags) {
	for _, o := range table {
		f := &optionFlag{option: o}
		cmd.Flags().Var(f, f.name(), o.Help)
		flags = append(flags, f)
	}
	return flags
}

// Values returns the options that are given: the last value of each or, if an option may be
// repeated, all of its values, each split into arguments at white space. Errors are those of the
// Caddyfile, with the flag in front.
func (flags OptionFlags) Values() (options.Values, error) {
	v := make(options.Values)
	for _, f := range flags {
		for i, given := range f.given {
			args := []string{given}
			if f.option.Repeatable() {
				args = strings.Fields(given)
			} else if i < len(f.given)-1 {
				continue
			}
			if err := v.Set(f.option.Name, args); err != nil {
				return nil, fmt.Errorf("--%s: %w", f.name(), err)
			}
		}
	}
	return v, nil
}

// An optionFlag is the flag of an option (a pflag.Value). It takes any text:
// the table says which values are allowed.
type optionFlag struct {
	option *options.Option
	given  []string // in the order of the command line
}

// name returns the name of the flag, such as keepalive-form for the option keepalive_form.
func (f *optionFlag) name() string { return strings.ReplaceAll(f.option.Name, "_", "-") }

// String returns the last value that is given, or the default.
func (f *optionFlag) String() string {
	if n := len(f.given); n > 0 {
		return f.given[n-1]
	}
	if f.option == nil {
		return "" // pflag asks a zero value for its default
	}
	return f.option.Default
}

// Set adds a value.
func (f *optionFlag) Set(v string) error {
	f.given = append(f.given, v)
	return nil
}

// Type returns the text after the flag in the help.
func (f *optionFlag) Type() string { return f.option.Usage() }

// FlagsOnly refuses arguments that are no flags. The error says which flag, such as "--to is the agent's
// address", may be meant.
func FlagsOnly(flag string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("%s takes flags only: %s", cmd.Name(), flag)
		}
		return nil
	}
}

// Exit prints err, unless it is nil, and returns the error that makes Caddy exit with status.
// caddycmd.WrapCommandFuncForCobra alone would leave err to Caddy's log, which is JSON without a
// terminal.
func Exit(cmd *cobra.Command, status int, err error) error {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "Error:", err)
	}
	switch status {
	case 0:
		return nil
	case 1:
		return errors.New("failed") // not printed: any error is status 1
	}
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return status, nil })(cmd, nil)
}
