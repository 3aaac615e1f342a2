// Package usage remembers which upstreams and models have reported usage, and which
// upstreams report their failures themselves, for the third rule of false stops
// (contract section 3).
//
// Memory is what the process knows: it survives reloads, is bounded, and is the only
// owner of its state, which one lock guards. Store is a handler's view of it: it asks
// Caddy's storage, which survives restarts, for what memory does not know, and has
// what changes written to it in the background. A stream never waits for a write.
package usage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Where usage lies in Caddy's storage: one key for each pair of upstream and model
// that reports it, and one for each upstream that reports its failures itself.
const (
	pairPrefix     = "hermes/usage/"
	upstreamPrefix = "hermes/upstream/"
)

const (
	// writeLimit is how long one write may take.
	writeLimit = 10 * time.Second
	// FlushLimit is how long the last Cleanup waits for writes.
	FlushLimit = 2 * time.Second
	// defaultLookupLimit is how long the end of a stream waits for storage. It
	// waits only for a pair this process has not heard of lately.
	defaultLookupLimit = 250 * time.Millisecond
	// maxUsageLookups is how many lookups may be under way in the process, so
	// that storage which hangs does not pile up goroutines.
	maxUsageLookups = 8
	// maxUsageModel is how many bytes of a model's name are stored. The name
	// is for whoever reads the storage; the key identifies the pair.
	maxUsageModel = 256
)

// Store answers what has been reported, first from memory, then from storage. A lookup
// that fails or takes longer than defaultLookupLimit counts as not reported, so that the
// stop passes. The first failure of storage is logged as a warning, and further ones are
// not until the next reload.
//
// Replicas that share the storage each count for themselves. One that finds a pair
// gone when it is about to write its count forgets it, too.
//
// It holds nothing that Cleanup would close, so streams that outlive their
// configuration go on using it.
type Store struct {
	Memory  *Memory
	Storage certmagic.Storage
	Logger  *zap.Logger

	lookupLimit time.Duration // 0 means defaultLookupLimit; for tests

	failed atomic.Bool
}

// record is the value stored for a pair, or for an upstream.
type record struct {
	Model    string    `json:"model,omitempty"`  // cut to maxUsageModel bytes; none of an upstream
	Reported time.Time `json:"reported"`         // when this was written
	Missed   int       `json:"missed,omitempty"` // answers without usage since, in a row
}

// Of returns what is remembered of an upstream.
func (s *Store) Of(upstream string) rewrite.UsageMemory { return ofUpstream{s, upstream} }

// ofUpstream is the part of a Store that belongs to an upstream.
type ofUpstream struct {
	*Store
	upstream string
}

// Reported reports whether usage has been reported for the model, by an upstream
// that does not report its failures itself.
func (u ofUpstream) Reported(model string) bool {
	pair, believed := u.Memory.pairKey(u.upstream, model), upstreamKey(u.upstream)
	recall := func() (known, unknown bool) {
		p := u.Memory.recall(pair, u.writer(pair, model))
		b := u.Memory.recall(believed, u.writer(believed, ""))
		if p == answerNo || b == answerYes {
			return false, false
		}
		return p == answerYes, p == answerUnknown || b == answerUnknown
	}
	known, unknown := recall()
	if unknown {
		u.lookUp(pair, believed)
		known, _ = recall()
	}
	return known
}

// Report remembers that usage has been reported for the model.
func (u ofUpstream) Report(model string) {
	key := u.Memory.pairKey(u.upstream, model)
	if !u.Memory.stored(key) {
		u.Memory.set(key, true, u.writer(key, model))
	}
}

// Missed counts an answer without usage that has been taken for a crash. With the
// third in a row the pair is forgotten.
func (u ofUpstream) Missed(model string) {
	key := u.Memory.pairKey(u.upstream, model)
	if u.Memory.count(key, u.writer(key, model)) {
		u.warnForgotten(model)
	}
}

// ReportsFailures remembers whether the upstream reports its failures itself.
func (u ofUpstream) ReportsFailures(does bool) {
	key := upstreamKey(u.upstream)
	u.Memory.set(key, does, u.writer(key, ""))
}

// lookUp asks storage for what is not known of the pair and its upstream, for at
// most the lookup limit. An answer that comes later is still remembered.
func (s *Store) lookUp(pair, believed string) {
	if s.Memory.lookups.Add(1) > maxUsageLookups {
		s.Memory.lookups.Add(-1)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(s.lookupLimit, defaultLookupLimit))
	go func() {
		defer cancel()
		defer s.Memory.lookups.Add(-1)
		if s.find(ctx, pair) {
			s.find(ctx, believed) // which matters only then
		}
	}()
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.Memory.learn(pair, state{})
		s.Memory.learn(believed, state{})
		s.warn("reading which upstreams report usage", ctx.Err())
	}
}

// find has memory know what storage has, if it does not know, and reports whether
// it is so.
func (s *Store) find(ctx context.Context, key string) bool {
	if known := s.Memory.recall(key, nil); known != answerUnknown {
		return known == answerYes
	}
	stored, err := s.load(ctx, key)
	if err != nil {
		s.warn("reading which upstreams report usage", err)
	}
	s.Memory.learn(key, stored)
	return stored.yes
}

// load reads a key from storage. It does not ask Exists, which for files
// answers true to any error but a missing file (certmagic filestorage.go:67).
func (s *Store) load(ctx context.Context, key string) (state, error) {
	value, err := s.Storage.Load(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return state{}, fmt.Errorf("reading %s: %w", key, err)
	}
	// A count that is none of ours must not keep the pair for ever, nor lose it.
	return state{yes: true, missed: min(max(r.Missed, 0), maxUsageForgotten-1)}, nil
}

// writer returns what writes the key of the pair or, without a model, of the
// upstream.
func (u ofUpstream) writer(key, model string) writeFunc {
	return func(is, had state) (state, error) {
		ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
		defer cancel()
		now, err := u.write(ctx, key, model, is, had)
		switch {
		case err != nil:
			u.warn("storing which upstreams report usage", err)
		case is.yes && !now.yes:
			u.warnForgotten(model)
		}
		return now, err
	}
}

// write has storage say what is known, and returns what is known then.
func (s *Store) write(ctx context.Context, key, model string, is, had state) (state, error) {
	if !is.yes {
		err := s.Storage.Delete(ctx, key)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return is, err
	}
	if is.missed > 0 && had.yes {
		there, err := s.load(ctx, key)
		if err != nil || !there.yes {
			return there, err // a replica has forgotten it
		}
	}
	value, err := json.Marshal(record{
		Model:    bounded.Text(model, maxUsageModel),
		Reported: s.Memory.time().UTC(),
		Missed:   is.missed,
	})
	if err == nil {
		err = s.Storage.Store(ctx, key, value)
	}
	return is, err
}

// warnForgotten logs that a pair has been forgotten.
func (u ofUpstream) warnForgotten(model string) {
	u.Logger.Warn("answers have come without usage one after the other, so the provider is taken for one that reports none: "+
		"such answers pass until one has usage again; see zero_usage",
		zap.String("upstream", bounded.Name(u.upstream)), zap.String("model", bounded.Name(model)), zap.Int("answers", maxUsageForgotten))
}

// warn logs the first failure of storage.
func (s *Store) warn(doing string, err error) {
	if !s.failed.CompareAndSwap(false, true) {
		return
	}
	s.Logger.Warn("storage failed; streams go on, but false stops may pass after a restart",
		zap.String("doing", doing), zap.Error(err))
}
