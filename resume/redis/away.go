package redis

import (
	"errors"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// failed records that a command failed, and warns once a minute. An error reply is not a server
// that is away.
func (s *Store) failed(err error) {
	if errors.Is(err, goredis.ErrClosed) {
		return
	}
	warned, message := &s.refused, "redis refuses a command; the stream that it is for cannot be resumed"
	if isAway(err) {
		s.away.Store(true)
		warned, message = &s.warned, "redis fails; answers pass and cannot be resumed until it is back"
	}
	last, at := warned.Load(), time.Now().UnixNano()
	if at-last >= int64(time.Minute) && warned.CompareAndSwap(last, at) {
		s.o.Logger.Warn(message, zap.String("address", s.o.Address), s.o.errorField(err))
	}
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
