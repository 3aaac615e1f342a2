package caddymodule

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/ask"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
	"github.com/hermes-sidecar/hermes-sidecar/internal/replicas"
	"github.com/hermes-sidecar/hermes-sidecar/internal/telemetry"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// defaultApprovalTimeout is how long Hermes waits by default.
const defaultApprovalTimeout = 5 * time.Minute

// offerApprovals sets the functions of o that ask clients for approvals, as the options of h say.
func (h *Handler) offerApprovals(o *proxy.Options, logger *zap.Logger) {
	timeout := *cmp.Or(h.ApprovalTimeout, new(caddy.Duration(defaultApprovalTimeout)))
	if h.Approvals == nil || timeout <= 0 {
		return
	}
	offer := h.Approvals
	h.ask = &ask.Options{
		Link: offer.Link, Text: offer.Text, Reply: offer.Reply, By: offer.By, Timeout: time.Duration(timeout),
		Desk: hermesapp.OfProcess().Desk, Logger: logger, Upstream: telemetry.Upstream,
	}
	if h.replicas != nil {
		h.ask.NewID = h.replicas.NewID
	}
	o.Approvals.Ask = func(r *http.Request) (rewrite.Approvals, func() bool) {
		s := ask.Of(r.Context())
		if !offer.Reply {
			return s, nil
		}
		return s, s.Split
	}
	o.Approvals.Secrets = h.ask.Secrets
	if offer.Reply {
		o.Approvals.Reply = h.ask.Answer
	}
}

// addReplicas adds the replicas that the options of h name to the configuration, and returns them, nil for
// none.
func (h *Handler) addReplicas(app *hermesapp.App, logger *zap.Logger) (*replicas.Replicas, error) {
	if h.Approvals == nil || h.Approvals.Replicas == nil {
		return nil, nil
	}
	named := h.Approvals.Replicas
	secret, err := caddy.NewReplacer().ReplaceOrErr(named.Secret, true, true)
	if err != nil {
		return nil, fmt.Errorf("invalid approvals replicas: the secret: %w", err)
	}
	if err := options.CheckSecret(secret); err != nil {
		return nil, err
	}
	all, err := replicas.New(named.Addresses, secret, hermesapp.OfProcess().Desk, logger)
	if err != nil {
		return nil, fmt.Errorf("invalid approvals replicas: %w", err)
	}
	return all, app.AddReplicas(all)
}
