//go:build !linux

package main

import (
	"errors"
	"os/exec"
	"time"
)

// Processes are pinned and measured on Linux only.

func stayOn(int) error             { return errors.New("bench needs Linux") }
func startOn(int, *exec.Cmd) error { return nil }
func kill(*exec.Cmd)               {}
func mostStreams() int             { return 0 }
func cpuOf(int) time.Duration      { return 0 }
func residentOf(int) int64         { return 0 }
func anonymousOf(int) int64        { return 0 }
func peakOf(int) int64             { return 0 }
