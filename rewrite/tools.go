package rewrite

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"

// Tools know which tool an emoji in a marker stands for (contract section 2). They do
// not change once made. Options.Tools nil means Hermes' own.
type Tools = marker.Table

// NewTools returns Hermes' own table with the emoji in added, each for the tool that it
// is mapped to. It takes over an emoji that Hermes uses, and returns the error of
// CheckTool for one that no marker can have.
func NewTools(added map[string]string) (*Tools, error) { return marker.NewTable(added) }

// CheckTool returns an error that says why emoji cannot stand for the tool name in a
// marker, or nil if it can.
func CheckTool(emoji, name string) error { return marker.CheckTool(emoji, name) }
