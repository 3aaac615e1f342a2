// Package schema holds what the sidecar says against the schemas in docs/schema.
//
//	schema.go  the files, and a frame of an event stream as frame.json has it
//	watch.go   each answer that package client reads: its frames and its errors, unless upstream
//	           has sent them
package schema
