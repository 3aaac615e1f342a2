package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// usagePrefix is where usage lies in Caddy's storage, one key for each pair of
// upstream and model.
const usagePrefix = "hermes/usage/"

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

// usageStore answers which upstreams and models have reported usage, for the
// third rule of false stops (contract section 3), first from memory, which
// survives reloads, then from Caddy's storage, which survives restarts.
//
// It never hurts a stream. A report is written in the background, once for a
// new pair. A lookup that fails or takes longer than usageLookupLimit counts
// as not reported, so that the stop passes. The first failure of storage is
// logged as a warning, and further ones are not until the next reload.
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

// usageRecord is the value stored for a pair.
type usageRecord struct {
	// Model is the model's name, cut to maxUsageModel bytes.
	Model string `json:"model"`
	// Reported is when this process first saw usage for the pair.
	Reported time.Time `json:"reported"`
}

// Reported reports whether usage has been reported for the pair.
func (s *usageStore) Reported(upstream, model string) bool {
	key := newUsageKey(upstream, model)
	switch s.memory.recall(key) {
	case usageKnown:
		return true
	case usageMissed:
		return false
	}
	return s.lookUp(key)
}

// Report remembers that usage has been reported for the pair.
func (s *usageStore) Report(upstream, model string) {
	key := newUsageKey(upstream, model)
	s.memory.report(key, func() error { return s.write(key, model) })
}

// Missed records that an answer without usage has been taken for a crash.
func (s *usageStore) Missed(upstream, model string) {}

// ReportsFailures records whether the upstream reports its failures itself.
func (s *usageStore) ReportsFailures(upstream string, does bool) {}

// lookUp asks storage for the pair, for at most the lookup limit. An answer
// that comes later is still remembered.
func (s *usageStore) lookUp(key usageKey) bool {
	if !s.memory.beginLookup() {
		return false
	}
	limit := s.lookupLimit
	if limit == 0 {
		limit = usageLookupLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	found := make(chan bool, 1)
	go func() {
		defer cancel()
		defer s.memory.endLookup()
		ok, err := s.load(ctx, key)
		if err != nil {
			s.warn("reading which upstreams report usage", err)
		}
		if ok {
			s.memory.know(key)
		} else {
			s.memory.miss(key)
		}
		found <- ok
	}()

	select {
	case ok := <-found:
		return ok
	case <-ctx.Done():
	}
	select {
	case ok := <-found: // the answer cancelled ctx
		return ok
	default:
	}
	s.memory.miss(key)
	s.warn("reading which upstreams report usage", ctx.Err())
	return false
}

// load reads the pair from storage. It does not ask Exists, which for files
// answers true to any error but a missing file (certmagic filestorage.go:67).
func (s *usageStore) load(ctx context.Context, key usageKey) (bool, error) {
	value, err := s.storage.Load(ctx, key.path())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var r usageRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return false, fmt.Errorf("reading %s: %w", key.path(), err)
	}
	return true, nil
}

// write stores the pair.
func (s *usageStore) write(key usageKey, model string) error {
	if len(model) > maxUsageModel {
		model = strings.ToValidUTF8(model[:maxUsageModel], "")
	}
	value, err := json.Marshal(usageRecord{Model: model, Reported: s.memory.time().UTC()})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), usageWriteLimit)
		defer cancel()
		err = s.storage.Store(ctx, key.path(), value)
	}
	if err != nil {
		s.warn("storing which upstreams report usage", err)
	}
	return err
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
