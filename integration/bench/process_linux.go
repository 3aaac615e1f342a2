package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startOn starts a command on the core, with all of its children. It gets a group
// of its own, so that it can be killed with them.
func startOn(core int, cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// A child inherits the cores of the thread that starts it. That thread is not
	// used for anything else, and stays: a child with Pdeathsig dies with it.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		var set unix.CPUSet
		set.Set(core % runtime.NumCPU())
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			started <- fmt.Errorf("choosing a core: %w", err)
			return
		}
		started <- cmd.Start()
		select {}
	}()
	return <-started
}

// kill ends a command and its children, and waits for it.
func kill(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
}

// mostStreams returns how many streams a proxy may have open, with a connection on
// either side of it, and raises the limit of open files as far as it goes.
func mostStreams() int {
	const others = 100 // files that are no stream's
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 400
	}
	if l.Max < wantedFiles && unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: wantedFiles, Max: wantedFiles}) == nil { // root may
		l.Max = wantedFiles
	}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: l.Max, Max: l.Max})
	return (int(l.Max) - others) / 2
}

// wantedFiles is how many open files ten thousand streams need.
const wantedFiles = 20_300

// tree returns the process and its descendants.
func tree(pid int) []int {
	children := make(map[int][]int)
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		p, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// The name, in parentheses, may have spaces. State and parent follow it.
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if parent, err := strconv.Atoi(string(f[1])); err == nil {
			children[parent] = append(children[parent], p)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// cpuOf returns the CPU time that the process and its descendants have taken.
func cpuOf(pid int) time.Duration {
	var sum time.Duration
	for _, p := range tree(pid) {
		var t unix.Timespec
		// The clock of another process, as clock_getcpuclockid(3) makes it.
		if unix.ClockGettime(int32(^p)<<3|2, &t) == nil {
			sum += time.Duration(t.Nano())
		}
	}
	return sum
}

// residentOf returns the resident bytes of the process and its descendants, shared
// pages divided among those that share them.
func residentOf(pid int) int64 {
	var sum int64
	for _, p := range tree(pid) {
		sum += mapped(p, "Pss")
	}
	return sum
}

// anonymousOf returns the resident bytes of the process that are no file's: its heap, its
// stacks, and what the runtime keeps of them.
func anonymousOf(pid int) int64 { return mapped(pid, "Anonymous") }

// peakOf returns the most bytes that the process has had resident, those of files too.
func peakOf(pid int) int64 { return kilobytes(fmt.Sprintf("/proc/%d/status", pid), "VmHWM") }

// mapped returns a sum in bytes over all that a process has mapped, 0 for a process
// that is gone.
func mapped(pid int, what string) int64 {
	return kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), what)
}

// kilobytes returns the bytes that a line of the file has as kilobytes, 0 if there is
// none.
func kilobytes(file, what string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, what+":"); ok {
			n, _ := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}
