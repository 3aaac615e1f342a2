package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
	"golang.org/x/sys/unix"
)

// stayOn has this process run on the core alone. It begins again there, so that Go knows of one
// core.
func stayOn(core int) error {
	runtime.LockOSThread()
	var have, want unix.CPUSet
	want.Set(core)
	if err := unix.SchedGetaffinity(0, &have); err != nil || have == want {
		return err
	}
	if err := unix.SchedSetaffinity(0, &want); err != nil {
		return fmt.Errorf("choosing core %d; bench needs two: %w", core, err)
	}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(path, os.Args, os.Environ())
}

// startOn starts a command on the core, with all of its children. It gets a group of its own, so
// that it can be killed with them.
func startOn(core int, cmd *exec.Cmd) error {
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		return fmt.Errorf("install util-linux: %w", err)
	}
	cmd.Args = append([]string{taskset, "-c", strconv.Itoa(core), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = taskset
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return child.Start(cmd)
}

// kill ends a command and its children, and waits for it.
func kill(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
}

// mostStreams returns how many streams a proxy may have open, with a connection on either side of
// it, and raises the limit of open files as far as it goes.
func mostStreams() int {
	const wanted = 20_300 // open files for ten thousand streams
	const others = 100    // files that are no stream's
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 400
	}
	if l.Max < wanted && unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: wanted, Max: wanted}) == nil { // root may
		l.Max = wanted
	}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: l.Max, Max: l.Max})
	return (int(l.Max) - others) / 2
}

// group returns the processes that startOn has made a group.
func group(leader int) (all []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may have spaces. State, parent and group follow it.
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if string(f[2]) == strconv.Itoa(leader) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			all = append(all, pid)
		}
	}
	return all
}

// cpuOf returns the CPU time that a group has taken.
func cpuOf(leader int) time.Duration {
	var sum time.Duration
	for _, p := range group(leader) {
		var t unix.Timespec
		// The clock of another process, as clock_getcpuclockid(3) makes it.
		if unix.ClockGettime(int32(^p)<<3|2, &t) == nil {
			sum += time.Duration(t.Nano())
		}
	}
	return sum
}

// residentOf returns the resident bytes of a group, shared pages divided among those that share
// them.
func residentOf(leader int) int64 {
	var sum int64
	for _, p := range group(leader) {
		sum += kilobytes(p, "smaps_rollup", "Pss")
	}
	return sum
}

// anonymousOf returns the resident bytes of the process that are no file's: its heap, its stacks,
// and what the runtime keeps of them.
func anonymousOf(pid int) int64 { return kilobytes(pid, "smaps_rollup", "Anonymous") }

// peakOf returns the peak of the resident bytes of the process, including those of files.
func peakOf(pid int) int64 { return kilobytes(pid, "status", "VmHWM") }

// kilobytes returns the bytes that a line of a file of the process has as kilobytes, 0 if there
// is none.
func kilobytes(pid int, file, line string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	for l := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(l, line+":"); ok {
			n, _ := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}
