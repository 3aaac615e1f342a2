// Package client sends requests and reads what comes back, whole or frame by frame. A Client
// belongs to a test, which fails where a request or an answer breaks off.
package client
