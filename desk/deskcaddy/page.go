package deskcaddy

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

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
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
		"spell":   spell,
	}).Parse(pageHTML))

	// The page has an empty icon, so that browsers do not request one: that request would name the
	// page, with its ticket, as its referrer, and would be in access logs.
	policy = "default-src 'none'; style-src '" + hash(pageCSS) + "'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

// inert returns text as HTML without actions of Caddy's templates, which may be in front of the
// page: they would run an action that a model has written, and hide it.
func inert(text string) template.HTML {
	return template.HTML(actionEscapes.Replace(template.HTMLEscapeString(text)))
}

// actionEscapes escapes the characters with which an action may begin, by default and with the
// delimiters that operators choose.
var actionEscapes = strings.NewReplacer("{", "&#123;", "[", "&#91;", "(", "&#40;", "%", "&#37;", "$", "&#36;", "@", "&#64;")

// hash returns the source expression of a Content-Security-Policy that allows style.
func hash(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// page is the data of the template.
type page struct {
	Title   string
	Text    string // below the title
	Problem string // with the previous answer
	// Again is the number of seconds after which the page opens again; 0 for never.
	Again int
	// Ask is the question of the form; nil if there is no form.
	Ask *ask
}

// ask is a question with its answers.
type ask struct {
	rewrite.ApprovalRequest
	TooLong bool
	Blank   bool // the command shows nothing
	Marks   bool // there are marked characters
	Until   time.Time
	Left    time.Duration
	User    string // who has asked the agent, and alone may answer; "" if everyone who opens the page may
	Buttons []button
}

// button is an answer.
type button struct {
	Choice rewrite.ApprovalChoice
	Label  string
	Means  string
}

// buttons are all answers, in their order.
var buttons = []button{
	{desk.Once, "Approve once", "This command runs."},
	{desk.Session, "Approve for this session", "It runs, and so do commands like it in this session; in a chat, only in this answer."},
	{desk.Always, "Approve always", "It runs, and Hermes never asks about commands like it again, whoever sends them."},
	{desk.Deny, "Deny", "It does not run. The agent continues without it."},
}

// unknown is the page for an id that has no ticket, or whose ticket is for another user.
var unknown = page{
	Title: "Nothing to answer here",
	Text:  "This link is not known. It is incomplete, very old, or from before the last start of the sidecar; in that case the command has not run.",
}

// elsewhere is the page after an answer that came from another address than that of the link.
func elsewhere(link string) page {
	return page{Title: "Not sent", Text: "The answer came from a different address than that of the link, which begins with " + originOf(link) + ", so it was not sent. " +
		"Open the link and answer there. If you did, set approvals link in the configuration of hermes to the address at which users reach this page."}
}

// said returns the page after an answer that Hermes has accepted. held says that the stream is held
// for a reply, which it may be although the answer came from the page.
func said(c rewrite.ApprovalChoice, held bool) page {
	rest := " The answer continues in the chat."
	if held {
		rest = " Send the reply that the chat asks for to get the rest of the answer."
	}
	if c == desk.Deny {
		return page{Title: "Denied", Text: "The command does not run. The agent continues without it." + rest}
	}
	return page{Title: "Approved", Text: map[rewrite.ApprovalChoice]string{
		desk.Once:    "The command runs, once.",
		desk.Session: "The command runs, and so do commands like it for the rest of the session.",
		desk.Always:  "The command runs, and Hermes does not ask about commands like it again.",
	}[c] + rest}
}

// page returns the page that shows v to user. problem is what was wrong with the previous answer,
// "" for none.
func (h *ApprovalsHandler) page(v desk.View, user, problem string) page {
	switch v.State {
	case desk.Sending:
		return page{Title: "Already answered", Text: "An answer is on its way to Hermes. In a moment, this page says whether Hermes has accepted it.", Again: 2}
	case desk.Answered:
		return page{Title: "Already answered", Text: map[rewrite.ApprovalChoice]string{
			"":           "The request was answered elsewhere. This link no longer does anything.",
			desk.Once:    "The command was approved once.",
			desk.Session: "The command was approved for the session.",
			desk.Always:  "The command was approved permanently.",
			desk.Deny:    "The command was denied.",
		}[v.Answer]}
	case desk.Over:
		return page{Title: "Too late", Text: "Hermes no longer waits for this answer. This link did not run the command."}
	}
	a := &ask{ApprovalRequest: v.Request, TooLong: v.TooLong, Blank: strings.TrimSpace(v.Request.Command) == "", Until: v.Until.UTC(), Left: time.Until(v.Until)}
	if h.By != "" && v.By != "" {
		a.User = user
	}
	for _, b := range buttons {
		if slices.Contains(v.Request.Choices, b.Choice) && (b.Choice != desk.Always || h.AllowAlways) {
			a.Buttons = append(a.Buttons, b)
		}
	}
	for _, text := range []string{v.Request.Command, v.Request.Description, v.Request.Tool} {
		a.Marks = a.Marks || hides(text)
	}
	again := int(max(a.Left, 0)/time.Second) + 2 // a second later, for the clock of the browser
	return page{Title: "May this command run?", Problem: problem, Again: again, Ask: a}
}

// write answers with a page.
func write(w http.ResponseWriter, r *http.Request, status int, p page) error {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return fmt.Errorf("writing the approval page: %w", err)
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
		// An error means that the browser has left.
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
