package recording

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// MaxRecording is the number of bytes that are read of a recording. It does not bound memory,
	// because a recording is read in pieces: it ends the reading of an endless one.
	MaxRecording = 1 << 30
	// maxHeader is how long the HTTP header in front of a recording may be, in bytes.
	maxHeader = 64 << 10
	// pieceSize is how much of a recording is read at once, in bytes.
	pieceSize = 1 << 20
)

var (
	errLong   = fmt.Errorf("the recording is longer than %d MiB: use a part of it", MaxRecording>>20)
	errHeader = fmt.Errorf("the HTTP header in front of the recording is longer than %d KiB", maxHeader>>10)
)

// ErrNothing says that a recording had nothing of Hermes in it.
var ErrNothing = errors.New("the recording contains no frame from Hermes and is not a chat completion: use the bytes that upstream sent, as curl -N prints them")

// Open returns the body of the recording in, without an HTTP header in front of it. Reading the
// body fails after MaxRecording bytes.
func Open(in io.Reader) (*bufio.Reader, error) {
	body := bufio.NewReaderSize(&limited{in, MaxRecording}, maxHeader)
	for { // 100 Continue has a header of its own
		if start, _ := body.Peek(len("HTTP/")); string(start) != "HTTP/" {
			return body, nil
		}
		if err := skipHeader(body); err != nil {
			return nil, err
		}
	}
}

// skipHeader skips the lines of a header and the blank one after it.
func skipHeader(r *bufio.Reader) error {
	for left := maxHeader; ; {
		line, err := r.ReadSlice('\n')
		left -= len(line)
		switch {
		case left < 0 || errors.Is(err, bufio.ErrBufferFull):
			return errHeader
		case err != nil && err != io.EOF:
			return fmt.Errorf("reading the recording: %w", err)
		case err == io.EOF || len(bytes.TrimRight(line, "\r\n")) == 0:
			return nil
		}
	}
}

// Pieces reads body and calls f with each piece until f fails or body ends. A piece is valid only
// during the call.
func Pieces(body io.Reader, f func(piece []byte) error) error {
	room := make([]byte, pieceSize)
	for {
		n, err := body.Read(room)
		if failed := f(room[:n]); failed != nil {
			return failed
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("reading the recording: %w", err)
		}
	}
}

// limited is a reader that fails once it has read more than left bytes.
type limited struct {
	io.Reader
	left int64
}

func (b *limited) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errLong
	}
	return n, err
}
