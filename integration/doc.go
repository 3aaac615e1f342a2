// Package integration has no code of its own. Below it are tests of the sidecar as its users
// run it: the built program, a configuration, and real sockets. They import nothing of the
// plugin. There is a folder for each thing that can go wrong:
//
//	wire           what changes on the wire, and what does not
//	network        protocols, broken connections, timeouts, retries, shutdowns, races, memory
//	configuration  the Caddyfile, its options and its JSON, beside other directives of Caddy
//	operations     metrics, logs, traces, the admin API, recordings, reloads, commands
//	clients        real clients, Open WebUI and LibreChat in front of it
//	approvals      who may answer what an agent asks, and what runs then
//	memory         what an agent is told of the tools that ran during its earlier answers
//	queue          who waits for an agent, and whose turn it is; whose session is whose
//	demo           the page of hermes-demo, in a browser
//	recipes        the configurations of docs/recipes, of the README and of other pages
//	deployment     the image, Kubernetes, Compose and systemd
//
// What these tests share is in harness and in the packages below it. The other folders:
//
//	child, freeport      processes that end with the tests, and addresses for them
//	kubernetes, cluster  the manifests, decoded and applied; cluster is a module of its own
//	bench                what it costs
//	mutate               which changes of the code the tests notice
//
// -short leaves out the build that xcaddy would make and most of the cuts.
// HERMES_TEST_BINARY names a program to test instead of ./cmd/caddy of the repository. Other
// variables say what must be there; CONTRIBUTING.md has them all.
package integration
