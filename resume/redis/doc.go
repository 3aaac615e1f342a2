// Package redis keeps the logs of package resume in Redis or Valkey, so that each of several
// replicas can continue, repeat or cancel the streams of the others. It is the Caddy module
// http.handlers.hermes_resume.stores.redis. docs/resume-redis.md says how to build and configure
// it.
//
//	module.go, caddyfile.go  the Caddy module, its options
//	client.go                the client: of one server, of Sentinels' master, or of a cluster
//	store.go                 Store: claims of keys, where a log is found
//	script.go                the scripts: what Redis does in one step
//	log.go                   the state of a log in Redis, its pieces, and how they are written
//	owned.go                 the log of a run in this process, and its way to Redis
//	lost.go                  how the owner of a log writes again what Redis has lost
//	reader.go                how another replica reads a log
//	down.go, replies.go      what an error says, and which replies are accepted
//
// The log of a run is also in the memory of its process: clients of that process read it there,
// without waiting for Redis. Four times a second the process updates each of its logs in Redis: it
// refreshes the lease, and learns how many readers there are in other replicas and whether the log
// was deleted. Each of these readers looks for new pieces twenty times a second, and less often
// when there are none. A reader that finds the lease over ends the log.
//
// With the prefix P, a log with the id I and the place T has these keys in Redis:
//
//	P log:{T}:I      a hash: the entry of the log, its state, its owner and the owner's lease
//	P events:{T}:I   a stream: each entry is an event, or a piece of one of at most 31 KiB
//	P readers:{T}:I  a sorted set: the readers in other replicas, and until when they count
//	P key:{T}:K      the id of the log with the key K
//
// Each of them has a time to live. Logs with the same key have the same place, with which their ids
// begin, so that in a cluster all keys that a script uses are in one slot.
//
// The client is go-redis: Redis maintains it, it also supports Valkey, Sentinels and clusters, and
// it keeps no cache per connection.
package redis
