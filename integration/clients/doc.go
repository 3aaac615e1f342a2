// Package clients shows the recordings to real clients, with and without the sidecar. The
// drivers, small programs around a client each, are in the folders beside (README.md).
//
// TestRealClients runs the clients of Go always. HERMES_CLIENTS, as "install", also installs
// and runs those of Node and Python, and as "required" fails for want of any. docs/clients.md
// is compared with what they see, and written by -update.
//
// TestOpenWebUI drives a real Open WebUI in a browser if HERMES_OPENWEBUI names one or is
// "install", and TestRealLibreChat LibreChat's engine if HERMES_LIBRECHAT is "install": see
// docs/open-webui.md.
//
// TestRealHermes runs a real Hermes gateway behind the sidecar if HERMES_AGENT is "install" or
// a version: see docs/hermes.md.
package clients
