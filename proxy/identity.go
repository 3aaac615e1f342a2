package proxy

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// The header fields by which Hermes tells users and conversations apart (contract section 5). What a
// client sends in one that Identity sets does not reach upstream, on no path and in no spelling; of
// the id of a session it chooses a part.
const (
	SessionKeyHeader = "X-Hermes-Session-Key"
	SessionIDHeader  = "X-Hermes-Session-Id"
)

// Identity says what upstream learns of the user of a request. Each function returns the name of the
// user of the client's request r, "" for one who has none, of whom upstream then learns nothing. A nil
// function says nothing, and leaves the client's own alone.
type Identity struct {
	// Header names the user in SessionKeyHeader: the name, or a hash of it.
	Header func(r *http.Request) string
	// Session gives each chat a session of the user's, in SessionIDHeader: hs-, a hash of the user, and
	// one of what the conversation begins with.
	Session func(r *http.Request) string
	// Prompt puts a line with a hash of the user in front of the system prompt.
	Prompt func(r *http.Request) string
}

// reads reports whether the body of r has to be read.
func (i *Identity) reads(r *http.Request) bool {
	path := r.URL.Path
	return i.Session != nil && rewrite.IsChatPath(path) || i.Prompt != nil && rewrite.IsRunPath(path)
}

// tell sets what the header of up, upstream's request for the client's request r, says of the
// user. edit sees the body if that comes whole, and returns the one that upstream gets; it is nil if
// there is nothing to see.
func (i *Identity) tell(r, up *http.Request) (edit func(body []byte) []byte) {
	if i.Header != nil {
		i.withhold(up, SessionKeyHeader)
		if name := i.Header(r); name != "" {
			up.Header[SessionKeyHeader] = []string{fieldOf(name)}
		}
	}
	var session func(body []byte)
	if i.Session != nil {
		i.withhold(up, SessionIDHeader)
		if name := i.Session(r); name != "" && r.Method == http.MethodPost && rewrite.IsChatPath(r.URL.Path) {
			session = setSession(r, up, "hs-"+digest(name)+"-")
		}
	}
	var line string
	if i.Prompt != nil && r.Method == http.MethodPost {
		if name := i.Prompt(r); name != "" {
			line = "Conversation space: " + digest(name)
		}
	}
	if session == nil && line == "" {
		return nil
	}
	return func(body []byte) []byte {
		if session != nil {
			session(body)
		}
		if line != "" {
			body = rewrite.SetPromptLine(r.URL.Path, body, line)
		}
		return body
	}
}

// withhold keeps what the client says in the field with the name from upstream. Trailers are not known
// before the body has been read, and Hermes reads none.
func (i *Identity) withhold(up *http.Request, name string) {
	head.Withhold(up.Header, name)
	up.Trailer = nil
}

// setSession sets the id of the session of up, which begins with space, the user's own. A client may
// choose the rest, or send the id that an earlier answer named. Otherwise each conversation has its
// own: derived, if not nil, sets it when the body is there. Of a body that does not come whole nothing
// is known, and it gets a session of its own: without any, Hermes would derive one that others may
// have, too.
func setSession(r, up *http.Request, space string) (derived func(body []byte)) {
	set := func(id string) { up.Header[SessionIDHeader] = []string{space + id} }
	if chosen := strings.TrimSpace(r.Header.Get(SessionIDHeader)); chosen != "" {
		if own, ok := strings.CutPrefix(chosen, space); ok && ownSession.MatchString(own) && !strings.Contains(own, "..") {
			set(own)
		} else {
			set(digest("chosen\x00" + chosen))
		}
		return nil
	}
	var fresh [8]byte
	_, _ = rand.Read(fresh[:]) // it never fails
	set(hex.EncodeToString(fresh[:]))
	return func(body []byte) {
		if opening, ok := rewrite.Opening(body); ok {
			// The path may name one of several agents at one address.
			set(digest("opening\x00" + r.URL.Path + "\x00" + string(opening)))
		}
	}
}

// ownSession is what may follow the user's part in the id of a session.
var ownSession = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// plainName are names that go to upstream as they are: every release of Hermes, and what it keeps its
// memories in, tells them apart. A hash begins with sha256-, so that no name is that of another.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9_])?$`)

// fieldOf returns a name as the value of a header field.
func fieldOf(name string) string {
	if plainName.MatchString(name) && !strings.HasPrefix(name, "sha256-") {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// digest returns 16 hexadecimal digits that stand for a text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
