package deskcaddy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

const (
	// maxLoginAnswer is the size in bytes of the largest answer of a login that is read. Open WebUI's
	// has the user's picture.
	maxLoginAnswer = 1 << 20
	// loginTimeout is how long a login may take to answer.
	loginTimeout = 5 * time.Second
)

// newLoginClient returns a client that asks a login. A redirect leads to a form, so it says that
// nobody is signed in.
func newLoginClient() *http.Client {
	return &http.Client{
		Timeout:       loginTimeout,
		Transport:     &http.Transport{IdleConnTimeout: 4 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var errSignedOut = errors.New("nobody is signed in")

// checkLogin returns an error if address is no URL that can be asked who is signed in.
func checkLogin(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("invalid login %q: must be the URL that returns who is signed in, such as http://127.0.0.1:8080/api/v1/auths/ of Open WebUI", address)
	}
	return nil
}

// signedIn asks the login who sends r, and sets the placeholder {http.auth.user.id} to that user. If
// nobody is signed in, or the login does not say, it answers r instead and returns false.
func (h *ApprovalsHandler) signedIn(w http.ResponseWriter, r *http.Request) (ok bool, err error) {
	user, err := h.userOf(r)
	switch {
	case errors.Is(err, errSignedOut):
		return false, write(w, r, http.StatusUnauthorized, page{Title: "Sign in first", Text: "Sign in where you chat with the agent, and open this link again."})
	case err != nil:
		h.logger.Warn("the login does not say who opened an approval page", zap.Error(err))
		return false, write(w, r, http.StatusBadGateway, page{Title: "Not now", Text: "The login does not answer, so this page cannot tell who you are. Open this link again in a moment."})
	}
	r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Set("http.auth.user.id", user)
	return true, nil
}

// userOf returns the id of the user whom the login knows by the cookies of r. The login is told
// nothing else of r: its path is the ticket.
func (h *ApprovalsHandler) userOf(r *http.Request) (string, error) {
	if r.Header.Get("Cookie") == "" {
		return "", errSignedOut
	}
	q, err := http.NewRequestWithContext(r.Context(), http.MethodGet, h.Login, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("asking the login: %w", err)
	}
	q.Header = http.Header{"Cookie": r.Header.Values("Cookie"), "Accept": {"application/json"}}
	res, err := h.client.Do(q)
	if err != nil {
		return "", fmt.Errorf("asking the login: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code >= 300 && code < 400:
		return "", errSignedOut
	case code != http.StatusOK:
		return "", fmt.Errorf("the login answers %s: check that it is the URL that returns who is signed in", res.Status)
	}
	var who struct{ ID string }
	body, err := io.ReadAll(io.LimitReader(res.Body, maxLoginAnswer+1))
	if err == nil && len(body) > maxLoginAnswer {
		err = fmt.Errorf("larger than %d bytes", maxLoginAnswer)
	}
	if err == nil {
		err = json.Unmarshal(body, &who)
	}
	if err == nil && who.ID == "" {
		err = errors.New("no id of a user")
	}
	if err != nil {
		return "", fmt.Errorf("the login's answer is not the JSON of a user: %w", err)
	}
	return who.ID, nil
}
