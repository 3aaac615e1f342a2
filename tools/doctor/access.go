package doctor

import (
	"context"
	"net/http"
)

// access is who gets an answer from an agent.
type access int

const (
	accessUnknown access = iota
	accessAnyone         // no key is needed
	accessKey            // the key that is given
	accessRefused        // another key, or any
)

// access finds out whether a key is needed and whether the given one is right. keyless
// is the answer of /v1/models without one.
func (e *examination) access(ctx context.Context, s *server, keyless *reply) access {
	e.plaintext(s)
	switch {
	case keyless.status == http.StatusOK:
		e.find("key", Warn, "it answers without a key",
			"Hermes runs commands for everyone who reaches the port, which is every program and user of this machine at least. "+
				"Set API_SERVER_KEY in Hermes' environment.")
		return accessAnyone
	case !keyless.refuses():
		message, _ := errorOf(keyless.body)
		e.find("key", Fail, e.say("/v1/models answers with status %d%s", keyless.status, e.quoted(message)), "Look into Hermes' own log.")
		return accessUnknown
	case s.key == "":
		e.find("key", Fail, e.say("it needs a key (status %d), and none is given", keyless.status),
			"Put Hermes' API_SERVER_KEY into the environment variable of that name here, or into a file for --key-file.")
		return accessRefused
	}
	r, err := s.get(ctx, "/v1/models", true)
	switch {
	case err != nil:
		says, why := e.unreachable(ctx, s, err)
		e.find("key", Fail, "/v1/models with the key: "+says, why)
		return accessUnknown
	case r.status == http.StatusOK:
		e.find("key", OK, "it needs a key, and takes this one", "")
		return accessKey
	case r.refuses():
		message, _ := errorOf(r.body)
		e.find("key", Fail, e.say("it refuses this key (status %d%s)", r.status, e.quoted(message)),
			"Give the API_SERVER_KEY that Hermes has been started with. Hermes reads it at its start only.")
		return accessRefused
	}
	message, _ := errorOf(r.body)
	e.find("key", Fail, e.say("/v1/models with the key answers with status %d%s", r.status, e.quoted(message)), "Look into Hermes' own log.")
	return accessUnknown
}

// plaintext says that others may read a key and prompts on their way.
func (e *examination) plaintext(s *server) {
	if s.url.Scheme == "http" && s.socket == "" && !e.isOwn(s.url.Hostname()) {
		e.find("encryption", Info, "it is reached through a network, and the connection is not encrypted",
			"Keys, prompts and answers can be read on the way. Use TLS, or a network that you trust.")
	}
}
