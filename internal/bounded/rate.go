package bounded

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap/zapcore"
)

// LogEvery is how often a Rate lets a message be logged, in the long run.
const LogEvery = time.Second

// Rate bounds how often something is logged that clients or upstream can cause as often as they
// like. The zero value is ready. It is safe for concurrent use, and must not be copied.
type Rate struct {
	full atomic.Int64 // when all of the burst is there again, in nanoseconds since 1970
}

// Allow counts a message that may be logged at the time now: burst times at once, and after that once
// in LogEvery. It returns false, and counts nothing, if there were more.
func (l *Rate) Allow(now time.Time, burst int) bool {
	at := now.UnixNano()
	for {
		full := l.full.Load()
		next := max(full, at) + int64(LogEvery)
		if next-at > int64(burst)*int64(LogEvery) {
			return false
		}
		if l.full.CompareAndSwap(full, next) {
			return true
		}
	}
}

// Level returns the level of a message that is logged at the level of as often as Allows allows.
// Any other time its level is debug.
func (l *Rate) Level(of zapcore.Level, burst int) zapcore.Level {
	if l.Allow(time.Now(), burst) {
		return of
	}
	return zapcore.DebugLevel
}
