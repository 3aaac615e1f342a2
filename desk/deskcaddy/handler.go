// Package deskcaddy is the Caddy module http.handlers.hermes_approvals and its directive:
// the page on which a user answers a question of the agent.
package deskcaddy

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/configjson"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/placeholder"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

func init() {
	caddy.RegisterModule(new(ApprovalsHandler))
}

// ApprovalsHandler serves the page on which a user approves or denies a dangerous command of the
// Hermes agent. `GET <path>/<ticket>` shows the command and the answers that Hermes offers, with
// a button for each. The option `approvals` of `hermes` makes the links to the page; it may be on
// another site of the same Caddy. In a Caddyfile:
//
//	chat.example.com {
//		basic_auth {
//			alice $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG
//		}
//		hermes_approvals
//	}
//
// Anyone who has a link can answer, so authenticate users in front of it, for example with
// `basic_auth` or `forward_auth`. A link works once, as long as Hermes waits. Opening it does not
// answer.
//
// Requests to the page are not in access logs, because the ticket is a secret. If a directive in
// front rejects them, use `log_skip` there as well. All other requests pass. The page needs no
// script.
type ApprovalsHandler struct {
	// The path in front of the ticket. Default: `/hermes/approve`.
	Path string `json:"path,omitempty"`

	// A text with placeholders that identifies who opens the page, such as
	// `{http.auth.user.id}`. If the option `approvals by` of `hermes` names the user of a
	// request, only that user sees it. Default: none.
	By string `json:"by,omitempty"`

	// A URL of the chat UI that returns who is signed in, such as
	// `http://open-webui:8080/api/v1/auths/`. The request to it contains the cookies of whoever
	// opens the page, and nothing else. The `id` in the JSON of its answer becomes
	// `{http.auth.user.id}`, and `by` if that is not set. Users who are not signed in do not see the page.
	// Default: none.
	Login string `json:"login,omitempty"`

	// Whether the page offers `always`, if Hermes does: the command and those like it then never
	// need an approval again, for any user. Default: false.
	AllowAlways bool `json:"allow_always,omitempty"`

	desk   *desk.Desk     // nil until Provision
	app    *hermesapp.App // likewise; has the replicas
	client *http.Client   // for Login
	logger *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*ApprovalsHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.hermes_approvals",
		New: func() caddy.Module { return new(ApprovalsHandler) },
	}
}

// UnmarshalJSON decodes the options strictly. Its errors say what to write for a value of another
// type.
func (h *ApprovalsHandler) UnmarshalJSON(b []byte) error {
	type fields ApprovalsHandler
	return configjson.Unmarshal(b, (*fields)(h))
}

// Provision sets the defaults.
func (h *ApprovalsHandler) Provision(ctx caddy.Context) error {
	app, err := hermesapp.Of(ctx)
	if err != nil {
		return err
	}
	h.app, h.desk, h.logger = app, hermesapp.OfProcess().Desk, ctx.Logger()
	h.Path = cmp.Or(h.Path, "/hermes/approve")
	if h.Login != "" {
		h.By, h.client = cmp.Or(h.By, "{http.auth.user.id}"), newLoginClient()
	}
	return nil
}

// Validate reports an option whose value is not allowed.
func (h *ApprovalsHandler) Validate() error {
	if !strings.HasPrefix(h.Path, "/") || path.Clean(h.Path) != h.Path || h.Path == "/" || strings.ContainsAny(h.Path, "*{}?#%") {
		return fmt.Errorf("invalid path %q: must be a path such as /hermes/approve, without a trailing slash, wildcards or placeholders", h.Path)
	}
	if h.By != "" && !placeholder.IsIn(h.By) {
		return fmt.Errorf("invalid by %q: must contain a placeholder, such as {http.auth.user.id}", h.By)
	}
	if h.Login != "" {
		return checkLogin(h.Login)
	}
	return nil
}

// maxForm is the size in bytes of the largest form that is read.
const maxForm = 1 << 10

// ServeHTTP answers requests to the page.
func (h *ApprovalsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	id, ours := strings.CutPrefix(r.URL.Path, h.Path)
	if !ours || id != "" && id[0] != '/' {
		return next.ServeHTTP(w, r)
	}
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	if h.Login != "" {
		if ok, err := h.signedIn(w, r); !ok {
			return err
		}
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		q, user, err := h.find(r, strings.TrimPrefix(id, "/"))
		if q == nil {
			return writeMissing(w, r, err)
		}
		v := q.View()
		return write(w, r, statusOf(v.State), h.page(v, user, ""))
	case http.MethodPost:
		return h.answer(w, r, strings.TrimPrefix(id, "/"))
	}
	w.Header().Set("Allow", "GET, HEAD, POST")
	return write(w, r, http.StatusMethodNotAllowed, page{Title: "Not allowed", Text: "Open this page, or send its form."})
}

// answer answers a POST. It checks the request itself before it looks for the ticket, so that
// errors of the request reveal nothing about tickets.
func (h *ApprovalsHandler) answer(w http.ResponseWriter, r *http.Request, id string) error {
	if isCrossSite(r) {
		return write(w, r, http.StatusForbidden, page{Title: "Not sent", Text: "The answer came from another site, so it was not sent to Hermes. Open the link and answer there."})
	}
	choice, status := choiceOf(w, r)
	if status != 0 {
		return write(w, r, status, page{Title: "Not sent", Text: "The form on this page offers no such answer."})
	}
	q, user, err := h.find(r, id)
	if q == nil {
		return writeMissing(w, r, err)
	}
	// A question of which no replica knows has no link.
	if v := q.View(); !isFrom(r, v.Link) && (v.Link != "" || v.State != desk.Over) {
		link := v.Link
		return write(w, r, http.StatusForbidden, elsewhere(link))
	}
	result, err := desk.Refused, desk.ErrNotOffered
	if choice != desk.Always || h.AllowAlways {
		result, err = q.Answer(r.Context(), choice, desk.Page)
	}
	v := q.View()
	fields := []zap.Field{zap.String("way", string(desk.Page)), zap.String("user", cmp.Or(user, identity(r))), zap.String("run_id", v.Request.RunID)}
	switch {
	case result == desk.Accepted:
		h.logger.Info("approval answered", append(fields, zap.String("choice", string(choice)))...)
		return write(w, r, http.StatusOK, said(choice, v.Held))
	case errors.Is(err, desk.ErrNotOffered):
		return write(w, r, http.StatusUnprocessableEntity, h.page(v, user, "Hermes does not offer this answer. Choose another one."))
	case result == desk.Refused:
		h.logger.Warn("the agent did not accept an answer to an approval", append(fields, zap.Error(err))...)
		return write(w, r, http.StatusBadGateway, h.page(v, user, "Hermes did not accept the answer. Try again."))
	}
	return write(w, r, http.StatusConflict, h.page(v, user, ""))
}

// question is one that an agent asks: a ticket of this process, or one of another replica.
type question interface {
	View() desk.View
	Answer(ctx context.Context, c rewrite.ApprovalChoice, way desk.Way) (desk.Result, error)
}

// find returns the question with the id, and the user of r. The question is nil if there is none, if it
// is for another user, or if that is not known because of err.
func (h *ApprovalsHandler) find(r *http.Request, id string) (q question, user string, err error) {
	user, _ = placeholder.Value(r, h.By)
	if t, ok := h.desk.Find(id); ok {
		q = t
	} else if all := h.app.Replicas(); all != nil && all.IsTicket(id) {
		other, err := all.Find(r.Context(), id)
		if err != nil {
			return nil, user, err
		}
		q = other
	}
	if q == nil {
		return nil, user, nil
	}
	if by := q.View().By; h.By != "" && by != "" && subtle.ConstantTimeCompare([]byte(by), []byte(user)) != 1 {
		return nil, user, nil
	}
	return q, user, nil
}

// writeMissing answers r, whose question find has not returned because of err, nil for none.
func writeMissing(w http.ResponseWriter, r *http.Request, err error) error {
	if err == nil {
		return write(w, r, http.StatusNotFound, unknown)
	}
	w.Header().Set("Retry-After", "5")
	return write(w, r, http.StatusServiceUnavailable, page{Title: "Not now", Text: "The part of the service that has this question does not answer. Nothing was sent to Hermes. Open this link again in a moment."})
}

// identity returns the user whom a directive in front has authenticated; "" if none has.
func identity(r *http.Request) string {
	id, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).GetString("http.auth.user.id")
	return id
}

// isCrossSite reports whether a request is from another site, as far as the browser says.
func isCrossSite(r *http.Request) bool {
	site := r.Header.Values("Sec-Fetch-Site")
	return len(site) > 0 && (len(site) > 1 || site[0] != "same-origin")
}

// isFrom reports whether a request is from a page at the origin of link, as far as the browser
// says. The Host of the request says nothing about that: a foreign page whose name leads to this
// server has it for its own, and a proxy in front may have changed it.
func isFrom(r *http.Request, link string) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 { // no browser
		return true
	}
	return len(origins) == 1 && link != "" && originOf(origins[0]) == originOf(link)
}

// originOf returns the origin of an address as browsers send it, "" for none.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return ""
	}
	host := strings.ToLower(u.Host)
	host = strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	return u.Scheme + "://" + strings.TrimSuffix(host, ":")
}

// choiceOf returns the answer of a form, or the status that says why there is none.
func choiceOf(w http.ResponseWriter, r *http.Request) (rewrite.ApprovalChoice, int) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return "", http.StatusUnsupportedMediaType
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return "", http.StatusRequestEntityTooLarge
	}
	form, formErr := url.ParseQuery(string(body))
	if err != nil || formErr != nil || len(form) != 1 || len(form["choice"]) != 1 {
		return "", http.StatusBadRequest
	}
	switch c := rewrite.ApprovalChoice(form["choice"][0]); c {
	case desk.Once, desk.Session, desk.Always, desk.Deny:
		return c, 0
	}
	return "", http.StatusBadRequest
}

// statusOf returns the HTTP status of a page that shows a ticket in the state s.
func statusOf(s desk.State) int {
	if s == desk.Over {
		return http.StatusGone
	}
	return http.StatusOK
}
