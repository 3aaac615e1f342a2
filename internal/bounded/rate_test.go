package bounded

import (
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
)

// TestRate: once a second in the long run, and a few at once.
func TestRate(t *testing.T) {
	type step struct {
		after time.Duration
		want  bool
	}
	for burst, steps := range map[int][]step{
		1: {{0, true}, {1, false}, {LogEvery - 1, false}, {LogEvery, true}, {LogEvery + 1, false}, {3 * LogEvery, true}, {3 * LogEvery, false}},
		3: {{0, true}, {0, true}, {1, true}, {2, false}, {LogEvery, true}, {LogEvery, false}, {9 * LogEvery, true}, {9 * LogEvery, true}, {9 * LogEvery, true}, {9 * LogEvery, false}},
	} {
		var l Rate
		now := time.Now()
		for i, s := range steps {
			if got := l.Allow(now.Add(s.after), burst); got != s.want {
				t.Errorf("burst %d, step %d, after %v: %v", burst, i, s.after, got)
			}
		}
	}
	var l Rate
	l.Allow(time.Now().Add(time.Hour), 1) // no time passes
	if got := l.Level(zapcore.WarnLevel, 1); got != zapcore.DebugLevel {
		t.Errorf("the level is %v", got)
	}
	if got := new(Rate).Level(zapcore.WarnLevel, 1); got != zapcore.WarnLevel {
		t.Errorf("the first level is %v", got)
	}
}
