package options

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/internal/placeholder"
)

// Approvals is the value of the option approvals: how clients may answer the question that Hermes
// asks before it runs a dangerous command. Each line of the option adds to it. The zero value
// offers nothing.
type Approvals struct {
	// The base URL of the pages that hermes_approvals serves, without a trailing slash. What a
	// client gets has a link to a page below it. Default: none.
	Link string `json:"link,omitempty"`

	// Whether the text of the answer also has the command and the link. Default: false.
	Text bool `json:"text,omitempty"`

	// Whether the answer ends with a code, and the next message of the client answers with it.
	// It needs hermes_resume in front. Default: false.
	Reply bool `json:"reply,omitempty"`

	// What tells the users of one key apart: a text with placeholders. Default: none.
	By string `json:"by,omitempty"`

	// The replicas of the site, any of which a link may reach. Default: none.
	Replicas *Replicas `json:"replicas,omitempty"`
}

// Replicas are the processes that serve a site with the same options.
type Replicas struct {
	// The URLs at which they reach each other's hermes. A name may have many addresses: all of them
	// are asked.
	Addresses []string `json:"addresses"`

	// What they have in common and nobody else knows, at least 32 characters, or a placeholder for that.
	Secret string `json:"secret"`
}

// approvalsUsage describes the arguments of a line.
const approvalsUsage = "link <base URL> [text], reply, by <placeholder>, or replicas <URL…> <secret>"

// minSecret is the number of characters of the shortest secret of replicas.
const minSecret = 32

// add adds a line's arguments to a.
func (a *Approvals) add(args []string) error {
	word, n := "", len(args)
	if n > 0 {
		word = args[0]
	}
	twice := false
	switch {
	case word == "link" && (n == 2 || n == 3 && args[2] == "text"):
		twice = a.Link != ""
		a.Link, a.Text = strings.TrimRight(args[1], "/"), n == 3
	case word == "reply" && n == 1:
		twice, a.Reply = a.Reply, true
	case word == "by" && n == 2:
		twice = a.By != ""
		a.By = args[1]
	case word == "replicas": // no error may quote the secret
		twice = a.Replicas != nil
		a.Replicas = &Replicas{args[1:max(n-1, 1)], args[n-1]}
	default:
		return fmt.Errorf("invalid approvals %q: must be %s", strings.Join(args, " "), approvalsUsage)
	}
	if twice {
		return fmt.Errorf("approvals %s already specified: use it only once", word)
	}
	return a.checkParts()
}

// check returns an error if a is not a valid value of the option.
func (a *Approvals) check() error {
	if err := a.checkParts(); err != nil {
		return err
	}
	switch {
	case a.Text && a.Link == "":
		return errors.New("invalid approvals: text without link: name the base URL of the pages, such as approvals link https://hermes.example.com/hermes/approve text")
	case a.Link == "" && !a.Reply:
		return errors.New("invalid approvals: nothing is offered: add approvals link <base URL> or approvals reply")
	}
	return nil
}

// checkParts returns an error if the base URL or the placeholder is not allowed.
func (a *Approvals) checkParts() error {
	if a.Link != "" {
		u, err := url.Parse(a.Link)
		isOf := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil &&
			!strings.ContainsAny(a.Link, "?#<>()[]`\"\\ \t\r\n")
		if !isOf {
			// The error does not quote the URL, which may have a password in it.
			return errors.New("invalid approvals link: must be the base URL of the pages that hermes_approvals serves, http or https without a user, query or fragment, such as https://hermes.example.com/hermes/approve")
		}
		if !isASCII(u.Host) { // the page compares it with what browsers send
			return errors.New("invalid approvals link: the host must be as browsers send it, such as xn--mller-kva.example for müller.example")
		}
	}
	if a.Replicas != nil {
		if err := a.Replicas.check(); err != nil {
			return err
		}
	}
	if a.By != "" && !placeholder.IsIn(a.By) {
		return fmt.Errorf("invalid approvals by %q: must contain a placeholder that distinguishes users, such as {http.request.header.X-OpenWebUI-User-Id} ({header.X-OpenWebUI-User-Id} in a Caddyfile)", a.By)
	}
	return nil
}

// check returns an error if an address or the secret is not allowed.
func (r *Replicas) check() error {
	path := ""
	for i, address := range r.Addresses {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(address, "?#{}* ") {
			return errors.New("invalid approvals replicas: must be the URLs at which replicas reach each other's hermes, and a secret, such as http://hermes-replicas:8643 {$HERMES_REPLICAS_SECRET}")
		}
		if i > 0 && u.Path != path {
			return errors.New("invalid approvals replicas: all URLs must have the same path")
		}
		path = u.Path
	}
	if len(r.Addresses) == 0 {
		return errors.New("invalid approvals replicas: must be one URL or more, and a secret, such as http://hermes-replicas:8643 {$HERMES_REPLICAS_SECRET}")
	}
	if placeholder.IsIn(r.Secret) {
		return nil
	}
	return CheckSecret(r.Secret)
}

// CheckSecret returns an error if a secret of replicas is too short.
func CheckSecret(secret string) error {
	if len(secret) < minSecret {
		return fmt.Errorf("invalid approvals replicas: the secret must be at least %d characters long: make one with openssl rand -hex 32", minSecret)
	}
	return nil
}

// isASCII reports whether a host is one that browsers name in an Origin.
func isASCII(host string) bool {
	return !strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII })
}
