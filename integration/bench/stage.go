package main

import "os"

// stage is what every measurement needs.
type stage struct {
	work    string // a directory
	caddy   caddy
	backend *backend
}

func newStage() (s stage, err error) {
	if s.work, err = os.MkdirTemp("", "hermes-bench-"); err != nil {
		return s, err
	}
	if s.caddy, err = buildCaddy(s.work); err == nil {
		s.backend, err = startBackend()
	}
	if err != nil {
		os.RemoveAll(s.work)
	}
	return s, err
}

func (s stage) close() {
	s.backend.stop()
	os.RemoveAll(s.work)
}
