// Package clock has the clock of package resume.
package clock

import "time"

// Clock tells the time and calls back. It is there so that tests can set it.
type Clock interface {
	Now() time.Time
	Since(t time.Time) time.Duration
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a call to come, as of time.AfterFunc.
type Timer interface {
	Reset(d time.Duration) bool
	Stop() bool
}
