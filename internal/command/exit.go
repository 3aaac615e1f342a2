// Package command has what the commands of the sidecar share: flags for the options of the
// handler, and exit statuses.
package command

import (
	"errors"
	"fmt"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// Exit prints err, unless it is nil, and returns the error with which Caddy exits with the
// status. caddycmd.WrapCommandFuncForCobra alone leaves err to Caddy's log, which is JSON
// where there is no terminal.
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
