// Package redis keeps the logs of package resume in Redis or Valkey, so that each of
// several replicas continues, repeats or cancels what another one runs. It is the Caddy
// module http.handlers.hermes_resume.stores.redis. docs/resume-redis.md says how to build and
// configure it.
//
//	module.go, caddyfile.go  the Caddy module, its options
//	client.go                the client: of one server, of Sentinels' master, or of a cluster
//	store.go                 Store: claims of keys, where a log is
//	script.go                what Redis does in one step
//	log.go                   the state of a log in Redis, its pieces, and how they are written
//	owned.go                 the log of a run in this process, and its way to Redis
//	lost.go                  what Redis has lost, and how it comes back
//	reader.go                how another replica reads it
//	away.go, replies.go      what an error says, and which replies are believed
//
// The log of a run is in the memory of its process, too: its own clients read it there,
// and Redis is off their way. Four times a second the process looks after each of its logs in
// Redis: it refreshes the lease, and learns how many readers there are elsewhere and whether
// the log was deleted. Each reader elsewhere looks for new pieces twenty times a second, and
// less often when none come. A reader that finds the lease over ends the log.
//
// With the prefix P, Redis has for a log with the id I and its place T
//
//	P log:{T}:I      a hash: what the log is of, its state, its owner and the owner's lease
//	P events:{T}:I   a stream: each entry is an event, or a piece of one of at most 31 KiB
//	P readers:{T}:I  a sorted set: the readers in other replicas, and until when they count
//	P key:{T}:K      the id of the log with the key K
//
// and each of them has a time to live. Logs with the same key have the same place, which their ids
// begin with: so a cluster has in one slot all that a script uses.
//
// The client is go-redis: Redis maintains it, it speaks to Valkey, Sentinels and clusters as well,
// and it keeps no cache for a connection, which is all that is needed here.
package redis
