package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// Where usage lies in Caddy's storage: one key for each pair of upstream and model
// that reports it, and one for each upstream that reports its failures itself.
const (
	usagePrefix    = "hermes/usage/"
	upstreamPrefix = "hermes/upstream/"
)

const (
	// usageWriteLimit is how long one write may take.
	usageWriteLimit = 10 * time.Second
	// usageFlushLimit is how long the last Cleanup waits for writes.
	usageFlushLimit = 2 * time.Second
	// usageLookupLimit is how long the end of a stream waits for storage. It
	// waits only for a pair this process has not heard of lately.
	usageLookupLimit = 250 * time.Millisecond
	// maxUsageLookups is how many lookups may be under way in the process, so
	// that storage which hangs does not pile up goroutines.
	maxUsageLookups = 8
	// maxUsageModel is how many bytes of a model's name are stored. The name
	// is for whoever reads the storage; the key identifies the pair.
	maxUsageModel = 256
)

// usageStore answers which upstreams and models have reported usage, and which
// upstreams report their failures themselves, for the third rule of false stops
// (contract section 3), first from memory, which survives reloads, then from
// Caddy's storage, which survives restarts.
//
// It never hurts a stream. What changes is written in the background: a pair or an
// upstream that is new, a count of answers without usage, what is forgotten. A
// lookup that fails or takes longer than usageLookupLimit counts as not reported,
// so that the stop passes. The first failure of storage is logged as a warning, and
// further ones are not until the next reload.
//
// Replicas that share the storage each count for themselves. One that finds a pair
// gone when it is about to write its count forgets it, too.
//
// It holds nothing that Cleanup would close, so streams that outlive their
// configuration go on using it.
type usageStore struct {
	memory  *usageMemory
	storage certmagic.Storage
	logger  *zap.Logger
	// lookupLimit overrides usageLookupLimit in tests. Zero means the
	// constant.
	lookupLimit time.Duration

	failed atomic.Bool
}

// usageRecord is the value stored for a pair, or for an upstream.
type usageRecord struct {
	// Model is the model's name, cut to maxUsageModel bytes; none of an upstream.
	Model string `json:"model,omitempty"`
	// Reported is when this was written.
	Reported time.Time `json:"reported"`
	// Missed counts the answers without usage since, in a row.
	Missed int `json:"missed,omitempty"`
}

// Reported reports whether usage has been reported for the pair, by an upstream
// that does not report its failures itself.
func (s *usageStore) Reported(upstream, model string) bool {
	pair, believed := newUsageKey(upstream, model), newUpstreamKey(upstream)
	recall := func() (known, unknown bool) {
		p := s.memory.recall(pair, s.writer(pair, upstream, model))
		b := s.memory.recall(believed, s.writer(believed, upstream, ""))
		if p == usageMissed || b == usageKnown {
			return false, false
		}
		return p == usageKnown, p == usageUnknown || b == usageUnknown
	}
	known, unknown := recall()
	if unknown {
		s.lookUp(pair, believed)
		known, _ = recall()
	}
	return known
}

// Report remembers that usage has been reported for the pair.
func (s *usageStore) Report(upstream, model string) {
	key := newUsageKey(upstream, model)
	s.memory.set(key, true, s.writer(key, upstream, model))
}

// Missed counts an answer without usage that has been taken for a crash. With the
// third in a row the pair is forgotten.
func (s *usageStore) Missed(upstream, model string) {
	key := newUsageKey(upstream, model)
	if s.memory.count(key, s.writer(key, upstream, model)) {
		s.warnForgotten(upstream, model)
	}
}

// ReportsFailures remembers whether the upstream reports its failures itself.
func (s *usageStore) ReportsFailures(upstream string, does bool) {
	key := newUpstreamKey(upstream)
	s.memory.set(key, does, s.writer(key, upstream, ""))
}

// lookUp asks storage for what is not known of the pair and its upstream, for at
// most the lookup limit. An answer that comes later is still remembered.
func (s *usageStore) lookUp(pair, believed usageKey) {
	if !s.memory.beginLookup() {
		return
	}
	limit := s.lookupLimit
	if limit == 0 {
		limit = usageLookupLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	go func() {
		defer cancel()
		defer s.memory.endLookup()
		if s.find(ctx, pair) {
			s.find(ctx, believed) // which matters only then
		}
	}()
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.memory.miss(pair)
		s.memory.miss(believed)
		s.warn("reading which upstreams report usage", ctx.Err())
	}
}

// find has memory know what storage has, if it does not know, and reports whether
// it is so.
func (s *usageStore) find(ctx context.Context, key usageKey) bool {
	if known := s.memory.recall(key, nil); known != usageUnknown {
		return known == usageKnown
	}
	state, err := s.load(ctx, key)
	if err != nil {
		s.warn("reading which upstreams report usage", err)
	}
	if state.yes {
		s.memory.know(key, state)
	} else {
		s.memory.miss(key)
	}
	return state.yes
}

// load reads a key from storage. It does not ask Exists, which for files
// answers true to any error but a missing file (certmagic filestorage.go:67).
func (s *usageStore) load(ctx context.Context, key usageKey) (usageState, error) {
	value, err := s.storage.Load(ctx, key.path())
	if errors.Is(err, fs.ErrNotExist) {
		return usageState{}, nil
	}
	if err != nil {
		return usageState{}, err
	}
	var r usageRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return usageState{}, fmt.Errorf("reading %s: %w", key.path(), err)
	}
	// A count that is none of ours must not keep the pair for ever, nor lose it.
	return usageState{yes: true, missed: min(max(r.Missed, 0), maxUsageForgotten-1)}, nil
}

// writer returns what writes the key of the pair or, without a model, of the
// upstream.
func (s *usageStore) writer(key usageKey, upstream, model string) usageWrite {
	return func(is, had usageState) (usageState, error) {
		ctx, cancel := context.WithTimeout(context.Background(), usageWriteLimit)
		defer cancel()
		now, err := s.write(ctx, key, model, is, had)
		switch {
		case err != nil:
			s.warn("storing which upstreams report usage", err)
		case is.yes && !now.yes:
			s.warnForgotten(upstream, model)
		}
		return now, err
	}
}

// write has storage say what is known, and returns what is known then.
func (s *usageStore) write(ctx context.Context, key usageKey, model string, is, had usageState) (usageState, error) {
	if !is.yes {
		err := s.storage.Delete(ctx, key.path())
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
	value, err := json.Marshal(usageRecord{
		Model:    cutText(model, maxUsageModel),
		Reported: s.memory.time().UTC(),
		Missed:   is.missed,
	})
	if err == nil {
		err = s.storage.Store(ctx, key.path(), value)
	}
	return is, err
}

// warnForgotten logs that a pair has been forgotten.
func (s *usageStore) warnForgotten(upstream, model string) {
	s.logger.Warn("answers have come without usage one after the other, so the provider is taken for one that reports none: "+
		"such answers pass until one has usage again; see zero_usage",
		zap.String("upstream", logged(upstream)), zap.String("model", logged(model)), zap.Int("answers", maxUsageForgotten))
}

// warn logs the first failure of storage.
func (s *usageStore) warn(doing string, err error) {
	if !s.failed.CompareAndSwap(false, true) {
		return
	}
	s.logger.Warn("storage failed; streams go on, but false stops may pass after a restart",
		zap.String("doing", doing), zap.Error(err))
}

// Interface guards
var _ proxy.UsageStore = (*usageStore)(nil)
