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

// The header fields by which Hermes tells users and conversations apart (contract section 5). If
// Identity sets a field, the client's own does not reach upstream, on any path or in any spelling;
// but the client chooses a part of the id of a session.
const (
	SessionKeyHeader = "X-Hermes-Session-Key"
	SessionIDHeader  = "X-Hermes-Session-Id"
)

// Identity says what upstream learns about the user of a request. Each function returns the name of
// the user of the client's request r, "" for none: then upstream learns nothing. A nil function
// says nothing, and leaves what the client sends unchanged.
type Identity struct {
	// Header names the user in SessionKeyHeader: the name, or a hash of it.
	Header func(r *http.Request) string
	// Session gives each chat of a user a session in SessionIDHeader: hs-, a hash of the user, and
	// a hash of the beginning of the conversation.
	Session func(r *http.Request) string
	// Prompt puts a line with a hash of the user in front of the system prompt.
	Prompt func(r *http.Request) string
}

// reads reports whether the body of r has to be read.
func (i *Identity) reads(r *http.Request) bool {
	path := r.URL.Path
	return i.Session != nil && rewrite.IsChatPath(path) || i.Prompt != nil && rewrite.IsRunPath(path)
}

// tell sets the fields of up, upstream's request for the client's request r, that name the user.
// edit gets the body if it was read whole, and returns the body that upstream gets; it is nil if
// the body does not matter.
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

// withhold removes the client's field with the name from up, and all trailers: they are not known
// before the body has been read, and Hermes reads none.
func (i *Identity) withhold(up *http.Request, name string) {
	head.Withhold(up.Header, name)
	up.Trailer = nil
}

// setSession sets the session id of up, which begins with space, the prefix of the user. The client
// may choose the rest, or send an id that an earlier answer named. Otherwise each conversation has
// its own: derived, if not nil, sets the id from the body. If the body is not whole, the id
// is random, because without one Hermes would derive an id that other users may share.
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

// ownSession matches what may follow the prefix of the user in the id of a session.
var ownSession = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// plainName matches names that go to upstream unchanged: every release of Hermes, and the stores of
// its memories, tell them apart. Other names are hashed, and so are names that begin with sha256-,
// the prefix of hashes, so that no two users have the same value.
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
