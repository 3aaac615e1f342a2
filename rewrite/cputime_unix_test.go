//go:build unix

package rewrite

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time of this process so far. Unlike the time on a clock, it does not depend on
// other processes.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
