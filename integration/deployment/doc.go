// Package deployment tests deploy/: the image's configuration, and the image itself
// where .ci/image has built one, the sidecar as it runs in its pod, the options of the chart,
// compose.yaml and the systemd unit, and the packages of a release where .ci/release has built
// them. HERMES_HELM, HERMES_SYSTEMD and HERMES_NSPAWN, as "required", say that helm,
// systemd-analyze and systemd-nspawn must be there.
package deployment
