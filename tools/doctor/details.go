package doctor

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-sidecar/hermes-sidecar/internal/details"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const (
	// maxSession is how much of the rows of a session is read, in bytes, and detailsWait is how long
	// they may take: the sidecar reads and waits no more (contract section 8).
	maxSession  = 4 << 20
	detailsWait = 300 * time.Millisecond
	// storesAtOnce is the first release that stores a turn while that runs.
	storesAtOnce release = 18_000
)

// sessionHeader names the session in an answer of Hermes.
const sessionHeader = "X-Hermes-Session-Id"

// checkDetails asks for the session of the answer r, as the sidecar does to learn what a tool was given
// and what it returned, and adds a finding.
func (e *examination) checkDetails(ctx context.Context, s *server, r *reading) {
	if r.session == "" {
		e.find("details", Info, "the answer names no session, so the sidecar cannot ask for the arguments and results of tools",
			"Hermes sends it in the header "+sessionHeader+". Something in between may remove it.")
		return
	}
	releases, _, _ := e.narrow()
	began := e.now()
	rows, err := s.getUpTo(ctx, "/api/sessions/"+url.PathEscape(r.session)+"/messages?"+details.Query(), true, maxSession+1)
	took := e.now().Sub(began)
	body := rewrite.Finite(rows.body)
	switch {
	case err != nil:
		says, why := e.explain(ctx, s, err)
		e.find("details", Warn, "the session of the answer cannot be read: "+says, why)
	case rows.refuses():
		e.find("details", Warn, e.say("this key may not read sessions (status %d%s)", rows.StatusCode, e.quoted(rows.message())),
			"The sidecar asks with the key of the client whose answer it is. Tool events then lack the arguments and results of tools.")
	case rows.StatusCode == http.StatusNotFound:
		e.find("details", Info, e.say("the session of the answer is not available (status 404%s)", e.quoted(rows.message())),
			"Hermes older than 0.16 has no /api/sessions. Otherwise something in front of it does not forward that path. "+
				"Tool events then lack the arguments and results of tools.")
	case rows.StatusCode != http.StatusOK:
		e.find("details", Warn, e.say("the session of the answer is not available (status %d%s)", rows.StatusCode, e.quoted(rows.message())), "See Hermes' log.")
	case len(rows.body) > maxSession:
		e.find("details", Warn, e.say("the session of the answer is larger than %d MiB, which the sidecar does not read", maxSession>>20),
			"Hermes up to 0.21 answers with the whole session. A chat that begins with different text gets a session of its own.")
	case !gjson.ValidBytes(body) || !gjson.GetBytes(body, "data").IsArray():
		e.find("details", Warn, "the answer for the session is not a list of its messages", "Something in front of Hermes answers that path.")
	case releases.to < storesAtOnce:
		e.find("details", Info, "this Hermes stores the arguments and results of tools when the turn ends, which is too late for tool events", "Since 0.18 it does so while the tool runs.")
	case took > detailsWait:
		e.find("details", Warn, "the session of the answer arrived after "+words(short(took)), "The sidecar waits 300ms at most. Tool events then lack the arguments and results of tools.")
	default:
		e.find("details", OK, e.say("the arguments and results of tools are available: the session of the answer has %d rows, and arrived after %s", len(gjson.GetBytes(body, "data").Array()), short(took)), "")
	}
}
