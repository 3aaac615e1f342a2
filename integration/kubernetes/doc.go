// Package kubernetes tests deploy/kubernetes: every way to render it
// is decoded strictly into the API's own Go types, and the rules that matter are
// checked on the result. Nothing of a cluster is needed, and kubectl and helm
// only by some; those tests are skipped where they are not in the PATH, unless
// HERMES_KUBECTL or HERMES_HELM is "required". .ci/kubernetes does the rest
// with a real API server.
package kubernetes
