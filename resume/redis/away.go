package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
)

// errAway means that Redis does nothing for any client now.
var errAway = errors.New("redis does not answer")

// watch asks Redis for something every now and then, so that requests need not find out that
// it is away, or back. When ctx is done, it closes the connections.
func (s *Store) watch(ctx context.Context) {
	defer close(s.over)
	for every := time.Second; pause(ctx, every); every = time.Second {
		limited, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
		if s.checked(s.client.Time(limited).Err()) != nil {
			every = retryAfter
		}
		cancel()
	}
	_ = s.client.Close() // it is not used any more
}

// checked records whether Redis is away, which is so if err, of a command, says it. It warns
// once a minute. An error reply is not a server that is away.
func (s *Store) checked(err error) error {
	if err == nil || errors.Is(err, goredis.Nil) {
		s.away.Store(false)
		return err
	}
	if errors.Is(err, goredis.ErrClosed) {
		return err
	}
	warned, message := &s.refused, "redis refuses a command; the stream that it is for cannot be resumed"
	if isAway(err) {
		s.away.Store(true)
		warned, message = &s.warned, "redis fails; answers pass and cannot be resumed until it is back"
	}
	last, at := warned.Load(), time.Now().UnixNano()
	if at-last >= int64(time.Minute) && warned.CompareAndSwap(last, at) {
		s.o.Logger.Warn(message, zap.String("address", s.o.Addr), s.o.errorField(err))
	}
	if isAway(err) {
		err = fmt.Errorf("%w: %w", errAway, err)
	}
	return err
}

// isAway reports whether an error says that Redis does nothing for any client now.
func isAway(err error) bool {
	var reply goredis.Error
	if !errors.As(err, &reply) {
		return true
	}
	return slices.ContainsFunc([]string{"LOADING", "BUSY", "MASTERDOWN", "READONLY", "max number of clients"},
		func(prefix string) bool { return goredis.HasErrorPrefix(reply, prefix) })
}

// errorField returns the field of a log message for an error. A server that does not know AUTH
// repeats the password.
func (o *Options) errorField(err error) zap.Field {
	text := err.Error()
	if o.Password != "" {
		text = strings.ReplaceAll(text, o.Password, "REDACTED")
	}
	return zap.String("error", text)
}

// caught calls f, and returns an error if that panics: it must not end the process.
func caught(logger *zap.Logger, f func()) error {
	late, ok := panics.Catch(f).(*panics.Late)
	if !ok {
		return nil
	}
	logger.Error("panic in the storage redis", zap.Any("panic", late.Value), zap.ByteString("stack", late.Stack))
	return fmt.Errorf("panic: %v", late.Value)
}

// retryAfter is how long to wait before a command that has failed is tried again.
const retryAfter = 50 * time.Millisecond

// pause waits. It returns false if ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
