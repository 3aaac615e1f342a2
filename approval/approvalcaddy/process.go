// Package approvalcaddy is the Caddy side of package approval.
package approvalcaddy

import "github.com/hermes-sidecar/hermes-sidecar/approval"

// desk has the tickets of all configurations of the process: a reload ends none. It is a variable
// of the package because Caddy has no value that lives as long.
var desk = approval.NewDesk()

// OfProcess returns the desk of this process.
func OfProcess() *approval.Desk { return desk }
