// Package configuration tests how the sidecar is configured: the options in a Caddyfile and in
// JSON, the directives hermes and hermes_proxy beside others of Caddy, Caddyfile.example, and
// the program that xcaddy builds.
package configuration
