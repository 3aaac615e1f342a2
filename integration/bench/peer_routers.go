package main

import (
	"os/exec"
	"path/filepath"
)

// Routers of inference engines: Rust behind a Python command. They forward streams
// that they look at a little or not at all.

// peerSGLang is the router of SGLang, with one worker behind it.
func peerSGLang() (peer, error) {
	p := peer{name: "SGLang router " + peerPinned("sglang-router.txt", "sglang-router"), path: chatCompletions, install: peerVenv("sglang-router.txt")}
	p.start = func(dir, work, listen, upstream string) (*exec.Cmd, error) {
		return peerRouter(filepath.Join(dir, "venv/bin/smg"), work, listen, upstream,
			"launch", "--log-level", "error", "--disable-health-check", "--max-concurrent-requests", "-1", "--history-backend", "none")
	}
	_, err := peerPython()
	return p, err
}

// peerVLLM is the router of vLLM, with one worker behind it.
func peerVLLM() (peer, error) {
	p := peer{name: "vLLM router " + peerPinned("vllm-router.txt", "vllm-router"), path: chatCompletions, install: peerVenv("vllm-router.txt")}
	p.start = func(dir, work, listen, upstream string) (*exec.Cmd, error) {
		return peerRouter(filepath.Join(dir, "venv/bin/vllm-router"), work, listen, upstream,
			"--log-level", "error", "--max-concurrent-requests", "16384")
	}
	_, err := peerPython()
	return p, err
}

// peerRouter is the command of either, after first, with what they have in common.
func peerRouter(program, work, listen, upstream string, first ...string) (*exec.Cmd, error) {
	host, port, err := peerSplit(listen)
	if err != nil {
		return nil, err
	}
	metrics, err := peerFree()
	if err != nil {
		return nil, err
	}
	return peerCommand(work, nil, program, append(first, "--host", host, "--port", port, "--worker-urls", "http://"+upstream,
		"--policy", "round_robin", "--disable-retries", "--disable-circuit-breaker", "--request-timeout-secs", "600",
		"--worker-startup-check-interval", "1", "--health-check-interval-secs", "600",
		"--prometheus-host", "127.0.0.1", "--prometheus-port", metrics)...), nil
}
