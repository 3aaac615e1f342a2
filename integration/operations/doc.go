// Package operations tests what an operator sees and does: metrics and the dashboard of them,
// logs, traces, the admin API, recordings, reloads, the commands hermes-proxy,
// hermes-repair and hermes-doctor; and that nothing secret is in any of it. The pages docs/observability.md and
// docs/security.md are compared with the program.
package operations
