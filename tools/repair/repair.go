package repair

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// repair reads a recorded answer from in and writes the repaired answer, or a request and writes it as
// Hermes gets it. The recorded answer is an event stream, or the JSON of an answer that is not streamed, as upstream sent it; an HTTP header
// in front, as curl -i shows it, is skipped. repair returns the code of the error that the answer
// ended in, "" for none. The error is recording.ErrNothing if the answer has nothing of Hermes in
// it; it is written all the same. A stream is repaired while it is read, and an answer that is not
// streamed is held up to max_frame.
func (c *repairCommand) repair(in io.Reader) (code string, err error) {
	cause, err := recording.ParseCause(c.meta.Cause)
	if err != nil {
		return "", err
	}
	body, err := recording.Open(in)
	switch {
	case err != nil:
		return "", err
	case beginsObject(body):
		return c.repairAnswer(body)
	}
	return c.repairStream(body, cause)
}

// known is a rewrite.UsageMemory that says the same of every model: whether it has reported usage.
type known bool

func (k known) Reported(string) bool { return bool(k) }
func (known) Report(string)          {}
func (known) Missed(string)          {}
func (known) ReportsFailures(bool)   {}
func (known) SendsEvents() bool      { return false }
func (known) ShowedEvents(bool)      {}

// repairStream repairs an event stream. Its times are not known, so the engine gets none.
func (c *repairCommand) repairStream(body io.Reader, cause rewrite.Cause) (string, error) {
	path := c.meta.Path
	p := rewrite.Params{
		Active: rewrite.IsChatPath(path), Responses: rewrite.IsResponsesPath(path),
		RunID: rewrite.RunOfPath(path), SessionID: rewrite.SessionOfPath(path),
		ID:       func() string { return "chatcmpl-offline" },
		Progress: rewrite.ProgressOf(c.meta.Progress), Usage: known(c.meta.UsageReported), Details: c.details,
	}
	e := explainer{out: c.out, width: c.width}
	if c.explain {
		p.Explain = e.printStep
	}
	s := rewrite.New(&c.options, p)
	write := func(repaired []byte) error {
		if c.explain {
			return e.err
		}
		if _, err := c.out.Write(repaired); err != nil {
			return fmt.Errorf("writing the repaired stream: %w", err)
		}
		return nil
	}
	var repaired []byte
	err := recording.Pieces(body, func(piece []byte) error {
		repaired = s.Feed(repaired[:0], piece, time.Time{})
		return write(repaired)
	})
	if err == nil {
		err = write(s.Finish(repaired[:0], cause))
	}
	sum := s.Summary()
	nothing := sum == rewrite.Summary{}
	if err == nil && c.explain {
		if !nothing {
			e.printEnd(sum)
		}
		e.printMeta(c.meta)
		err = e.err
	}
	if err == nil && nothing {
		err = recording.ErrNothing
	}
	return sum.Code, err
}

// repairAnswer repairs an answer that is not streamed, or heals a request. An answer larger than
// max_frame passes unchanged, as it does live, and is an error.
func (c *repairCommand) repairAnswer(body io.Reader) (string, error) {
	limit := c.options.FrameLimit()
	whole, err := io.ReadAll(io.LimitReader(body, max(int64(limit), proxy.DefaultMaxRequest)+1))
	if err != nil {
		return "", fmt.Errorf("reading the recording: %w", err)
	}
	if isRequest(whole) {
		return "", c.healRequest(whole)
	}
	if len(whole) > limit {
		if !c.explain {
			if _, err := io.Copy(c.out, io.MultiReader(bytes.NewReader(whole), body)); err != nil {
				return "", fmt.Errorf("writing the answer: %w", err)
			}
		}
		return "", fmt.Errorf("the answer is larger than max_frame, %d bytes: it passes unexamined; set --max-frame to examine it", limit)
	}
	a := rewrite.RepairAnswer(bytes.TrimRight(whole, "\r\n"), &c.options, nil)
	// An error object is the answer of Hermes to a request that it refuses.
	if !a.Completion && a.Code == "" && gjson.ValidBytes(rewrite.Finite(whole)) && gjson.GetBytes(whole, "error").Type != gjson.Null {
		a.Code = rewrite.CodeAgentError
	}
	if c.explain {
		e := explainer{out: c.out, width: c.width}
		e.printAnswer(a)
		err = e.err
	} else if _, err = fmt.Fprintf(c.out, "%s\n", a.Body); err != nil {
		err = fmt.Errorf("writing the repaired answer: %w", err)
	}
	if err == nil && !a.Completion && !a.Changed && a.Code == "" {
		err = recording.ErrNothing
	}
	return a.Code, err
}

// beginsObject reports whether the first byte of r other than white space begins a JSON object.
// It consumes nothing, and looks no further than the buffer of r.
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
