// Package redis keeps the logs of package resume in Redis or Valkey, so that each of
// several replicas continues, repeats or cancels what another one runs. It is the Caddy
// module http.handlers.hermes_resume.stores.redis. docs/resume.md says how to build and
// configure it.
//
//	module.go, caddyfile.go  the Caddy module, its options
//	store.go                 Store: who has a key, where a log is
//	names.go                 the names of keys
//	script.go                what Redis does in one step
//	replies.go, away.go      which replies are believed, and what an error says
//	view.go                  the state of a log
//	owned.go, flush.go       the log of a run in this process, and its way to Redis
//	remote.go, orphan.go     a log that another process writes, or has left
//	tail.go, reader.go       how such a log is followed
//	control.go               leases, and what replicas tell each other
//
// The log of a run is in the memory of its process, too: its own clients read it there,
// and Redis is off their way. Others read it in Redis. For each log of another replica
// that has readers here, one connection waits for what comes; a reader that has less
// asks for what it lacks.
//
// With the prefix P, Redis has for a log with the id I
//
//	P log:I      a hash: what the log is of, its state, its owner and the owner's lease
//	P events:I   a stream: pieces of at most 31 KiB, with where events end in them
//	P readers:I  a sorted set: the readers in other replicas, and until when they count
//	P key:K      the id of the log with the key K
//	P replica:R  a stream: what others tell the replica R
//
// and each of them has a time to live.
//
// The client is go-redis: Redis maintains it, it speaks to Valkey as well, and it starts no
// goroutine and keeps no cache for a connection, which is all that is needed here.
package redis
