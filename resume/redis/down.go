package redis

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// errDown means that Redis serves no client now.
var errDown = errors.New("redis does not answer")

// watch asks Redis for the time every second, or every retryAfter while that fails, so that no
// request has to find out that Redis is down or back. When ctx is done, it closes the connections.
func (s *Store) watch(ctx context.Context) {
	defer close(s.over)
	for every := time.Second; pause(ctx, every); {
		every = time.Second
		limited, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
		err := s.checked(s.ask(limited))
		if s.o.isCluster() && !errors.Is(err, goredis.ErrClosed) {
			s.down.Store(err != nil)
		}
		if err != nil {
			every = retryAfter
		}
		cancel()
	}
	_ = s.client.Close() // it is not used any more
}

// checked records whether err, the result of a command, means that Redis is down, and returns err,
// which then wraps errDown. In a cluster, err is about one node only. Most error replies do not
// mean that Redis is down. It logs each kind of failure at most once a minute.
func (s *Store) checked(err error) error {
	cluster, spread := s.client.(*goredis.ClusterClient)
	if err == nil || isNil(err) {
		if !spread {
			s.down.Store(false)
		}
		return err
	}
	if errors.Is(err, goredis.ErrClosed) {
		return err
	}
	warned, message := &s.refused, "redis rejected a command; its stream cannot be resumed"
	if isDown(err) {
		s.failed.Store(time.Now().UnixNano())
		if spread {
			cluster.ReloadState(context.Background()) // another node may have taken over
		} else {
			s.down.Store(true)
		}
		warned, message = &s.warned, "redis is failing; until it recovers, answers pass and cannot be resumed"
	}
	last, at := warned.Load(), time.Now().UnixNano()
	if at-last >= int64(time.Minute) && warned.CompareAndSwap(last, at) {
		s.o.Logger.Warn(message, zap.String("address", strings.Join(s.o.Addrs, " ")), s.o.errorField(err))
	}
	if isDown(err) {
		err = fmt.Errorf("%w: %w", errDown, err)
	}
	return err
}

// isNil reports whether err is the reply of Redis that there is no value. It does not look at what
// err wraps: a Sentinel that knows no such master replies the same.
func isNil(err error) bool { return err == goredis.Nil } //nolint:errorlint // see above

// isDown reports whether err means that Redis serves no client now.
func isDown(err error) bool {
	var reply goredis.Error
	if !errors.As(err, &reply) {
		return true
	}
	return slices.ContainsFunc([]string{"LOADING", "BUSY", "MASTERDOWN", "READONLY", "NOREPLICAS", "max number of clients",
		"CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"}, // the last three only after the retries of go-redis
		func(prefix string) bool { return goredis.HasErrorPrefix(reply, prefix) })
}

// errorField returns the field of a log message for err, without the passwords: a server that does
// not know AUTH repeats them.
func (o *Options) errorField(err error) zap.Field {
	text := err.Error()
	for _, password := range []string{o.Password, o.SentinelPassword} {
		if password != "" {
			text = strings.ReplaceAll(text, password, "REDACTED")
		}
	}
	return zap.String("error", text)
}

// caught calls f. A panic of f is logged and returned as an error: it must not end the process.
func caught(logger *zap.Logger, f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			logger.Error("panic in the storage redis", zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	f()
	return nil
}

// retryAfter is how long to wait before a command that has failed is tried again.
const retryAfter = 50 * time.Millisecond

// pause waits for d. If ctx is done first, it returns false at once.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
