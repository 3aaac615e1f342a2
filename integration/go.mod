module github.com/hermes-sidecar/hermes-sidecar/integration

go 1.26.0

// The HTTP/3 client, in the version that Caddy v2.11.9 serves with.
require github.com/quic-go/quic-go v0.63.0

require (
	github.com/quic-go/qpack v0.6.0 // indirect
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.40.0 // indirect
)
