package resume

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/internal/client"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// entryOf returns the entry, with its key, of a log for r, whose terms are t. The client's own key wins
// over one of the configuration, and that over one of an SDK.
func entryOf(o *Options, r *http.Request, t terms, body []byte) entry {
	e := entry{
		Entry: log.Entry{Keep: t.keep, MaxStream: o.MaxStream, MaxMemory: o.MaxMemory},
		about: about{Owner: owner(o, r, r.URL.Path), Path: r.URL.Path, Progress: r.Header.Get(proxy.ProgressHeader)},
	}
	if t.key != "" || t.values != nil || t.sdk {
		e.Body = sha256.Sum256(body)
	}
	switch {
	case t.key != "":
		e.Key = keyOf(o.Secret, e.Owner, r.URL.RawQuery, t.key)
	case t.values != nil:
		e.Key, e.Once = keyOfValues(o, e, r.URL.RawQuery, t.values), true
	case t.sdk:
		e.Key, e.KeyKeep = sdkKeyOf(o.Secret, e.Owner, r, e.Body), sdkKeep
		e.Takes = !t.again
	}
	e.ID = log.NewID(e.Key)
	return e
}

// mismatch returns the problem of a request with the key of e and another body than before.
func mismatch(e entry) *problem {
	if e.Once { // the configuration's
		return errOtherBody
	}
	return errMismatch
}

// keyOfValues returns the keyed hash of values, which Options.Key has returned, for e, whose Owner
// and Body are set. keyOf and sdkKeyOf hash other numbers of lists, so their hashes differ.
func keyOfValues(o *Options, e entry, query string, values []string) log.Digest {
	var body []string
	if o.KeyBody {
		body = []string{string(e.Body[:])}
	}
	return hash(o.Secret, [][]string{{string(e.Owner[:]), query}, values, body})
}

// sdkKeyOf returns the keyed hash that serves as the key of r, an SDK's request from owner. body is
// the hash of its body. keyOf hashes another number of lists, so no client can send this key.
func sdkKeyOf(secret []byte, owner log.Digest, r *http.Request, body log.Digest) log.Digest {
	fields := [][]string{{string(owner[:]), r.URL.RawQuery}, {retryHeader, string(body[:])}}
	// The same words in another session are another question.
	for _, name := range []string{"X-Hermes-Session-Id", "X-Hermes-Session-Key", proxy.ProgressHeader} {
		fields = append(fields, r.Header[name])
	}
	return hash(secret, fields)
}

// owner returns the keyed hash of resource, of the server and the path that r asks for, and of its
// client: clients with the same hash may have the answer.
func owner(o *Options, r *http.Request, resource string) log.Digest {
	server, path := o.Target(r)
	if of, _, ok := named(path); ok {
		path = of
	}
	return ownerAt(o, r, resource, server, path)
}

// ownerAt is owner with the server and the path of the resource that the client asked for.
func ownerAt(o *Options, r *http.Request, resource, server, path string) log.Digest {
	of := client.Of(r)
	return hash(o.Secret, [][]string{{r.Host, resource}, {server, path}, {string(of[:])}})
}

// keyOf returns the keyed hash of owner, query and key, an idempotency key.
func keyOf(secret []byte, owner log.Digest, query, key string) log.Digest {
	return hash(secret, [][]string{{string(owner[:]), query, key}})
}

// hash returns the keyed hash of fields, quoted so that no two lists of fields are the same bytes.
func hash(secret []byte, fields [][]string) log.Digest {
	m := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(m, "%q", fields) // never fails
	return log.Digest(m.Sum(nil))
}
