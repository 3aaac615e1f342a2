package approvalcaddy

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/approval"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		"style":   func() template.CSS { return template.CSS(pageCSS) },
		"visible": visible,
		"inert":   inert,
	}).Parse(pageHTML))

	// The icon is empty, so that none is asked for: that request would name the page, with its
	// ticket, as its referrer, and be in access logs.
	policy = "default-src 'none'; style-src '" + hash(pageCSS) + "'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

// inert returns a text as HTML in which nothing is an action of Caddy's templates, which may be in
// front of the page: that would run what a model has written, and hide it.
func inert(text string) template.HTML {
	return template.HTML(actionEscapes.Replace(template.HTMLEscapeString(text)))
}

// actionEscapes are those of characters that an action may begin with, by default and as operators
// choose.
var actionEscapes = strings.NewReplacer("{", "&#123;", "[", "&#91;", "(", "&#40;", "%", "&#37;", "$", "&#36;", "@", "&#64;")

// hash returns the source of a policy that allows a style.
func hash(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// page is what the template shows.
type page struct {
	Title   string
	Text    string // below the title
	Problem string // with the answer before this one
	// Ask is what the form asks; nil if there is no form.
	Ask *ask
}

// ask is a question with its answers.
type ask struct {
	approval.Request
	TooLong bool
	Marks   bool // there are marked characters
	Left    string
	User    string // who asked, and alone may answer; "" if everyone may who opens the page
	Buttons []button
}

// button is an answer.
type button struct {
	Choice approval.Choice
	Label  string
	Means  string
}

// buttons are all answers, in their order.
var buttons = []button{
	{approval.Once, "Approve once", "This command runs."},
	{approval.Session, "Approve for this session", "It runs, and so do commands like it in the session; in a chat, in this answer."},
	{approval.Always, "Approve always", "It runs, and Hermes never asks again for commands like it, whoever sends them."},
	{approval.Deny, "Deny", "It does not run. The agent goes on without it."},
}

// unknown is the page of what is no ticket, or one that has expired, or another user's.
var unknown = page{
	Title: "Nothing to answer here",
	Text:  "This link is not valid. It may be incomplete, or its time is over: then the command has not run.",
}

// said is the page after an answer that Hermes has accepted. The stream may be held for a reply, also
// if the answer has come from the page.
func said(c approval.Choice, held bool) page {
	rest := " The answer goes on in the chat."
	if held {
		rest = " Send the reply that the chat asks for, and the rest of the answer comes."
	}
	if c == approval.Deny {
		return page{Title: "Denied", Text: "The command does not run. The agent goes on without it." + rest}
	}
	return page{Title: "Approved", Text: map[approval.Choice]string{
		approval.Once:    "The command runs, once.",
		approval.Session: "The command runs, and so do commands like it for the rest of the session.",
		approval.Always:  "The command runs, and Hermes does not ask for commands like it again.",
	}[c] + rest}
}

// page returns what the page of a ticket shows to a user, with a problem that there was.
func (h *ApprovalsHandler) page(v approval.View, user, problem string) page {
	switch v.State {
	case approval.Sending:
		return page{Title: "Already answered", Text: "An answer is on its way to Hermes."}
	case approval.Answered:
		return page{Title: "Already answered", Text: map[approval.Choice]string{
			"":               "The answer came by another way. This link does nothing more.",
			approval.Once:    "The command was approved once.",
			approval.Session: "The command was approved for the session.",
			approval.Always:  "The command was approved for always.",
			approval.Deny:    "The command was denied.",
		}[v.Answer]}
	case approval.Over:
		return page{Title: "Too late", Text: "Hermes does not wait for this answer any more. The command has not run because of this link."}
	}
	a := &ask{Request: v.Request, TooLong: v.TooLong, Left: spell(v.Left)}
	if h.By != "" && v.By != "" {
		a.User = user
	}
	for _, b := range buttons {
		if slices.Contains(v.Request.Choices, b.Choice) && (b.Choice != approval.Always || h.AllowAlways) {
			a.Buttons = append(a.Buttons, b)
		}
	}
	for _, text := range []string{v.Request.Command, v.Request.Description, v.Request.Tool} {
		a.Marks = a.Marks || strings.ContainsFunc(text, func(c rune) bool { return c != '\n' && isHidden(c) })
	}
	return page{Title: "May this command run?", Problem: problem, Ask: a}
}

// write answers with a page.
func write(w http.ResponseWriter, r *http.Request, status int, p page) error {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return fmt.Errorf("writing the page of an approval: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	// With no-referrer Chromium sends the form with Origin: null, as if from another site.
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		// A browser that has left has nothing to be told.
		_, _ = w.Write(b.Bytes())
	}
	return nil
}

// spell returns a duration in words.
func spell(d time.Duration) string {
	count := func(n int, unit string) string {
		if n != 1 {
			unit += "s"
		}
		return fmt.Sprint(n, " ", unit)
	}
	seconds := int(d / time.Second)
	switch minutes := seconds / 60; {
	case minutes == 0:
		return count(seconds, "second")
	case seconds%60 == 0:
		return count(minutes, "minute")
	default:
		return count(minutes, "minute") + " " + count(seconds%60, "second")
	}
}
