// Package strict is the independent oracle: it decodes a chat stream as the contract says that
// the sidecar writes it, and reports whatever is not so. It shares no code with the sidecar.
//
// Decode wants LF, a blank line after each frame, one data line with a chunk or [DONE], and
// nothing after that. The methods of Answer want more: the lifecycle of tools (contract
// section 2), the error finish (section 3), a good end.
package strict
