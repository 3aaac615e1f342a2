package redis

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// blocks is how long a connection waits for what comes, before it looks around.
const blocks = time.Second

// control refreshes leases, and does what other replicas tell this one, until ctx is done. As long as
// Redis is away, it is the one who finds out that it is back.
func (s *Store) control(ctx context.Context) {
	defer close(s.over)
	go s.keep(ctx)
	last := "0-0"
	for ctx.Err() == nil {
		err := caught(s.o.Logger, func() {
			block := blocks
			if s.away.Load() {
				block = -1
			}
			entries, err := s.wait(ctx, s.names.replica(s.replica), last, block)
			if err != nil {
				if ctx.Err() == nil {
					s.failed(err)
				}
				pause(ctx, blocks/10)
				return
			}
			s.away.Store(false)
			told := make(map[string]bool)
			for _, e := range entries {
				last = e.ID
				if id, ok := e.Values["id"].(string); ok {
					told[id] = true
				}
			}
			for id := range told {
				if o := s.ownedLog(id); o != nil {
					_ = o.refresh(last) // the lease is refreshed again soon
				}
			}
		})
		if err != nil {
			pause(ctx, blocks/10)
		}
	}
}

// caught calls f, and returns an error if that panics: it must not end the process.
func caught(logger *zap.Logger, f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
			logger.Error("panic in the storage redis", zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))
		}
	}()
	f()
	return nil
}

// wait waits for entries of a stream after the last one, and returns none if there are none for
// so long. A time below 0 means that it does not wait.
func (s *Store) wait(ctx context.Context, key, last string, block time.Duration) ([]goredis.XMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, max(block, 0)+s.o.Timeout)
	defer cancel()
	streams, err := s.client.XRead(ctx, &goredis.XReadArgs{Streams: []string{key, last}, Count: maxEntries, Block: block}).Result()
	if errors.Is(err, goredis.Nil) {
		return nil, nil
	}
	if err != nil || len(streams) == 0 {
		return nil, err
	}
	return streams[0].Messages, nil
}

// waitForLog waits as wait does, if it gets a turn. So many logs may be followed that there is
// none for a while: then it only looks whether something has come.
func (s *Store) waitForLog(ctx context.Context, id, last string) ([]goredis.XMessage, error) {
	block := blocks
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(blocks):
		block = -1
	}
	return s.wait(ctx, s.names.events(id), last, block)
}

// maxEntries is how many entries of a stream are read at once.
const maxEntries = 8

// keep refreshes the leases of logs and of readers, until ctx is done.
func (s *Store) keep(ctx context.Context) {
	for pause(ctx, s.o.Lease/4) {
		_ = caught(s.o.Logger, func() {
			s.mu.Lock()
			owned, tails := make([]*owned, 0, len(s.owned)), make([]*tail, 0, len(s.tails))
			for _, o := range s.owned {
				owned = append(owned, o)
			}
			for _, t := range s.tails {
				tails = append(tails, t)
			}
			s.mu.Unlock()
			for _, o := range owned {
				if o.refresh("") != nil {
					break // the others would fail as well, each after a while
				}
			}
			for _, t := range tails {
				if t.count() != nil {
					break
				}
			}
		})
	}
}

// pause waits. It returns false if ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
