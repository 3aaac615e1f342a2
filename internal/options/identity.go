package options

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/internal/placeholder"
)

// Identity is the value of the option identity: for each way to tell upstream the user of a
// request, a text with placeholders, or "". Each line of the option adds to it. The zero value
// tells nothing.
type Identity struct {
	// What names the user in the header X-Hermes-Session-Key. Default: none.
	Header string `json:"header,omitempty"`

	// What names the user of whom each chat gets a session, in X-Hermes-Session-Id. Default: none.
	Session string `json:"session,omitempty"`

	// What names the user of whom the system prompt gets a line. Default: none.
	Prompt string `json:"prompt,omitempty"`
}

// identityUsage describes the arguments of a line.
const identityUsage = "<placeholder> [by header|session|prompt]"

// add adds a line's arguments to i.
func (i *Identity) add(args []string) error {
	way := "header"
	if len(args) == 3 && args[1] == "by" {
		way = args[2]
	}
	to := map[string]*string{"header": &i.Header, "session": &i.Session, "prompt": &i.Prompt}[way]
	switch {
	case len(args) != 1 && (len(args) != 3 || args[1] != "by") || to == nil:
		return fmt.Errorf("invalid identity %q: must be %s", strings.Join(args, " "), identityUsage)
	case *to != "":
		return fmt.Errorf("identity by %s already specified: use it only once", way)
	case args[0] == "":
		return errNoUser("")
	}
	*to = args[0]
	return i.checkParts()
}

// check returns an error if i is not a valid value of the option.
func (i *Identity) check() error {
	if *i == (Identity{}) {
		return errors.New("invalid identity: no user is named: add header, session or prompt with a placeholder that names the user")
	}
	return i.checkParts()
}

// checkParts returns an error if a text names no user.
func (i *Identity) checkParts() error {
	for _, text := range []string{i.Header, i.Session, i.Prompt} {
		if text != "" && !placeholder.IsIn(text) {
			return errNoUser(text)
		}
	}
	return nil
}

func errNoUser(text string) error {
	return fmt.Errorf("invalid identity %q: must contain a placeholder that names the user, such as {http.auth.user.id}", text)
}
