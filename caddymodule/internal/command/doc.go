// Package command registers the commands of the sidecar with Caddy when it is
// imported: hermes-proxy runs it without a configuration file, hermes-repair repairs
// a recorded answer, hermes-health asks a running sidecar whether it serves,
// hermes-doctor examines an agent. Each is a type that holds its flags, with a method
// run. The demo is a package of its own, which not every build has.
package command
