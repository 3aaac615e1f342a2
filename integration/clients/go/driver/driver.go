// Package driver is the part that all drivers of Go clients share: it reads
// cases from stdin, one JSON object a line, and writes what the client made of
// each to stdout, in the protocol that ../../README.md describes.
package driver

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// A Case is one question to be asked.
type Case struct {
	ID      int    `json:"id"`
	BaseURL string `json:"base_url"` // ends in /v1
	Prompt  string `json:"prompt"`   // the user's message, which chooses the answer
	Whole   bool   `json:"whole"`    // the answer is not to be streamed
	Key     string `json:"key"`      // to send as Idempotency-Key: then the program asks again after an error
}

// A Result is what a program that uses the client has seen.
type Result struct {
	ID        int      `json:"id"`
	Text      string   `json:"text"`
	Reasoning string   `json:"reasoning"`
	Tools     []string `json:"tools"`  // such as "terminal running"
	Finish    string   `json:"finish"` // the last finish reason, "" when none was seen
	Error     *Error   `json:"error"`
	MS        int64    `json:"ms"`
}

// An Error is a failure, as the program has seen it.
type Error struct {
	How     string `json:"how"` // "error", or "panic" for a client that panics
	Type    string `json:"type"`
	Message string `json:"message"`
	Code    string `json:"code"`
}

// Error is the message, so that a loop can return what it has read in its
// client's own error, as the documentation of the client says.
func (e *Error) Error() string { return e.Message }

// Tool records a tool event, when the chunk was one. The raw values are JSON.
func (r *Result) Tool(tool, status string) {
	var t, s string
	if json.Unmarshal([]byte(tool), &t) == nil && json.Unmarshal([]byte(status), &s) == nil {
		r.Tools = append(r.Tools, t+" "+s)
	}
}

// Think records reasoning, a raw JSON string or "".
func (r *Result) Think(raw string) {
	var s string
	if json.Unmarshal([]byte(raw), &s) == nil {
		r.Reasoning += s
	}
}

// End records a finish reason.
func (r *Result) End(reason string) {
	if reason != "" {
		r.Finish = reason
	}
}

// Run answers cases until stdin ends, each in a goroutine of its own. ask is the
// client's documented loop; the error is what the program would have got. module
// is the client's path, whose version the build knows.
func Run(module string, ask func(c Case, r *Result) error) {
	out := json.NewEncoder(os.Stdout)
	var mu sync.Mutex
	say := func(v any) {
		mu.Lock()
		defer mu.Unlock()
		if err := out.Encode(v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	say(map[string]string{"version": version(module)})
	var running sync.WaitGroup
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var c Case
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		running.Go(func() {
			r := answer(c, ask)
			for tries := 4; c.Key != "" && r.Error != nil && tries > 0; tries-- {
				r = answer(c, ask)
			}
			say(r)
		})
	}
	running.Wait()
}

// answer asks, and turns what the loop returns or panics with into a result.
func answer(c Case, ask func(c Case, r *Result) error) (r *Result) {
	r = &Result{ID: c.ID, Tools: []string{}}
	begin := time.Now()
	defer func() {
		if p := recover(); p != nil {
			r.Error = &Error{How: "panic", Type: fmt.Sprintf("%T", p), Message: fmt.Sprint(p)}
		}
		r.MS = time.Since(begin).Milliseconds()
	}()
	err := ask(c, r)
	if err == nil {
		return r
	}
	if read, ok := errors.AsType[*Error](err); ok {
		r.Error = read
	} else {
		r.Error = &Error{Type: fmt.Sprintf("%T", err), Message: err.Error()}
	}
	r.Error.How = "error"
	return r
}

// version is that of a module in this build.
func version(module string) string {
	info, _ := debug.ReadBuildInfo() // every build of a module has it
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return ""
}
