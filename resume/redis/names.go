package redis

import (
	"encoding/hex"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// A prefix is what the names of all keys in Redis begin with.
type prefix string

func (p prefix) log(id string) string          { return string(p) + "log:" + id }
func (p prefix) events(id string) string       { return string(p) + "events:" + id }
func (p prefix) readers(id string) string      { return string(p) + "readers:" + id }
func (p prefix) replica(replica string) string { return string(p) + "replica:" + replica }
func (p prefix) key(key resume.Digest) string {
	return string(p) + "key:" + hex.EncodeToString(key[:])
}

// all returns all keys of a log.
func (p prefix) all(e resume.Entry) []string {
	return []string{p.log(e.ID), p.events(e.ID), p.readers(e.ID), p.key(e.Key)}
}

// cancel returns those that cancelScript takes.
func (p prefix) cancel(e resume.Entry) []string {
	return []string{p.log(e.ID), p.events(e.ID), p.key(e.Key)}
}
