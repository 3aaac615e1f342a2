// Package repair registers the command hermes-repair, which repairs a recorded answer of
// Hermes offline, with the engine that repairs live ones, and explains what it does.
package repair

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Options say how a recording is repaired.
type Options struct {
	Rewrite rewrite.Options
	Meta    recording.Meta // where its Path is not known, the stream is taken for what its first chunk says
	Explain bool           // write what became of each frame, and why, instead of the repaired answer
	Width   int            // columns of a frame's line that an explanation shows, 0 for all
}

// Run reads a recorded answer from in and writes the repaired one to out. The
// recording is an event stream, or the JSON of an answer that is not streamed,
// as upstream sent it; an HTTP header in front, as curl -i shows it, is skipped.
// The summary's Code says in which error it ended, "" for none. The error is
// recording.ErrNothing if nothing of Hermes was in it; it has been written all the same.
// A stream is repaired while it is read, and an answer is held up to max_frame.
func Run(in io.Reader, out io.Writer, o Options) (rewrite.Summary, error) {
	cause, err := recording.ParseCause(o.Meta.Cause)
	if err != nil {
		return rewrite.Summary{}, err
	}
	_, body, err := recording.Open(in)
	switch {
	case err != nil:
		return rewrite.Summary{}, err
	case beginsObject(body):
		return repairAnswer(body, out, o)
	}
	return repairStream(body, out, cause, o)
}

// known is a rewrite.UsageMemory that knows one thing of all models.
type known bool

func (k known) Reported(string) bool { return bool(k) }
func (known) Report(string)          {}
func (known) Missed(string)          {}
func (known) ReportsFailures(bool)   {}

// repairStream repairs an event stream. Its times are not known: time stands
// still.
func repairStream(body io.Reader, out io.Writer, cause rewrite.Cause, o Options) (rewrite.Summary, error) {
	p := rewrite.Params{
		Active: rewrite.IsChatPath(o.Meta.Path), Responses: rewrite.IsResponsesPath(o.Meta.Path), RunID: rewrite.RunOfPath(o.Meta.Path), SessionID: rewrite.SessionOfPath(o.Meta.Path),
		ID:       func() string { return "chatcmpl-offline" },
		Progress: rewrite.ProgressOf(o.Meta.Progress), Usage: known(o.Meta.UsageReported),
	}
	e := explainer{out: out, width: o.Width}
	if o.Explain {
		p.Explain = e.step
		out = io.Discard
	}
	s := rewrite.New(&o.Rewrite, p)
	var repaired []byte
	write := func() error {
		if _, err := out.Write(repaired); err != nil {
			return fmt.Errorf("writing the repaired stream: %w", err)
		}
		return e.err
	}
	err := recording.Pieces(body, func(piece []byte) error {
		repaired = s.Feed(repaired[:0], piece, time.Time{})
		return write()
	})
	if err != nil {
		return s.Summary(), err
	}
	repaired = s.Finish(repaired[:0], cause)
	err = write()
	sum := s.Summary()
	nothing := sum == rewrite.Summary{}
	if o.Explain {
		if !nothing {
			e.end(sum)
		}
		e.meta(o.Meta)
		err = e.err
	}
	if nothing && err == nil {
		return sum, recording.ErrNothing
	}
	return sum, err
}

// repairAnswer repairs an answer that is not streamed. One above max_frame passes, as it
// does live, and is an error here.
func repairAnswer(body io.Reader, out io.Writer, o Options) (sum rewrite.Summary, err error) {
	limit := o.Rewrite.FrameLimit()
	whole, err := io.ReadAll(io.LimitReader(body, int64(limit)+1))
	if err != nil {
		return sum, fmt.Errorf("reading the recording: %w", err)
	}
	if len(whole) > limit {
		if !o.Explain {
			if _, err := io.Copy(out, io.MultiReader(bytes.NewReader(whole), body)); err != nil {
				return sum, fmt.Errorf("writing the answer: %w", err)
			}
		}
		return sum, fmt.Errorf("the answer is larger than max_frame, %d bytes: it passes unexamined; set --max-frame to examine it", limit)
	}
	a := rewrite.RepairAnswer(bytes.TrimRight(whole, "\r\n"), &o.Rewrite, nil)
	if !a.Completion && a.Code == "" && isError(whole) {
		a.Code = rewrite.CodeAgentError
	}
	if o.Explain {
		e := explainer{out: out, width: o.Width}
		if e.answer(a); e.err != nil {
			return a.Summary, e.err
		}
	} else if _, err := fmt.Fprintf(out, "%s\n", a.Body); err != nil {
		return a.Summary, fmt.Errorf("writing the repaired answer: %w", err)
	}
	if !a.Completion && !a.Changed && a.Code == "" {
		return a.Summary, recording.ErrNothing
	}
	return a.Summary, nil
}

// isError reports whether an answer is an error object, as Hermes answers a
// request that it refuses.
func isError(body []byte) bool {
	var o struct {
		Error any `json:"error"`
	}
	return json.Unmarshal(body, &o) == nil && o.Error != nil
}

// beginsObject reports whether the first byte that is no white space begins a JSON object.
// It reads nothing, and looks no further than the buffer of r reaches.
func beginsObject(r *bufio.Reader) bool {
	for n := 1; ; n++ {
		b, err := r.Peek(n)
		if err != nil {
			return false
		}
		if c := b[n-1]; !strings.ContainsRune(" \t\r\n", rune(c)) {
			return c == '{'
		}
	}
}
