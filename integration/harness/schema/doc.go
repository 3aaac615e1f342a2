// Package schema holds what the sidecar says against the schemas in docs/schema.
//
//	schema.go  the files, for any test
//	frame.go   a frame of an event stream as frame.json has it
//	sent.go    what upstream has sent: a frame of it that has passed is not the sidecar's
//	watch.go   each answer that package client reads: its frames and its errors
package schema
