package rewrite

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/agentapi"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chat"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Bounds of the packages below that tests of whole streams drive to.
const (
	maxCalls         = whole.MaxCalls
	maxCardID        = encode.MaxCardID
	maxCardLabel     = encode.MaxCardLabel
	maxCardName      = encode.MaxCardName
	maxIdleBuffer    = 16 << 10 // of sse
	maxEndedTools    = chat.MaxEndedTools
	maxEnvelope      = chunk.MaxEnvelope
	maxMessage       = contract.MaxMessage
	maxOpenBytes     = contract.MaxOpenBytes
	maxOpenTools     = contract.MaxOpenTools
	maxRedactedEdits = sse.MaxEdits
	maxResponse      = agentapi.MaxResponse
	maxStretches     = prose.MaxStretches
	maxUsage         = chat.MaxUsage

	progressEvent = encode.ProgressEvent
)

func unquote(raw []byte) string { return jsonspan.Unquote(string(raw)) }
