// Package metrics reads the metrics that a sidecar exposes.
package metrics
