package caddymodule

import (
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/details"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/telemetry"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// tellDetails sets the function of o that tells of the agent's tools, as the options of h say.
func (h *Handler) tellDetails(o *proxy.Options, logger *zap.Logger) {
	if h.ToolDetails == "off" {
		return
	}
	process := hermesapp.OfProcess()
	given := &details.Options{
		Results: h.ToolDetails != "arguments", Upstreams: process.Upstreams, Upstream: telemetry.Upstream,
		Logger: logger, Count: process.Telemetry.CountDetails,
	}
	o.Tools.Details = given.Of
}
