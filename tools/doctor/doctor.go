package doctor

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// An examination is the examination of one agent while it is under way.
type examination struct {
	Agent
	*doctor
	subject  subject
	checks   string     // the prefix of the names of checks
	evidence []evidence // of the release: what /health says, and what the answer shows
	reading  *reading   // of the agent's own answer, nil without one
}

// newExamination returns the examination of the agent or the recording at address; namedBy says
// where the address was found. Its lists are empty, so that they are not null in JSON.
func (d *doctor) newExamination(address, namedBy string) *examination {
	a := Agent{Address: address, NamedBy: namedBy, Findings: []Finding{}, Repairs: []Repair{}, Options: []Option{}}
	return &examination{Agent: a, doctor: d}
}

// examine examines an agent, and the sidecar in front of it.
func (d *doctor) examine(ctx context.Context, s subject) Agent {
	e := d.newExamination(s.String(), s.namedBy)
	e.subject = s
	if e.checkAgent(ctx, d.server(s.target, d.key)) && e.conclude().meets(span{oldest, lastRead}) {
		e.find("ignored", Info, "Hermes ignores tools, tool_choice, functions, n above 1 and response_format in a chat request, and background in one to /v1/responses",
			"It answers with status 200 anyway. docs/limitations.md has a table, and the access log names those that a client sends (hermes_ignored).")
	}
	if s.sidecar.url != nil {
		e.Through, e.checks = s.sidecar.String(), "through."
		e.checkSidecar(ctx, d.server(s.sidecar, cmp.Or(d.clientKey, d.key)))
	}
	return e.Agent
}

// checkAgent examines the agent itself. It returns false if there is nothing to advise, because the
// checkAgent does not answer, is not Hermes or refuses the key.
func (e *examination) checkAgent(ctx context.Context, s *server) bool {
	health, err := s.get(ctx, "/health", false) // it needs no key
	switch {
	case err != nil:
		e.findUnreachable(ctx, s, "reachable", "", err)
		return false
	case health.StatusCode == http.StatusBadRequest && s.url.Scheme == "http" && s.speaksTLS(ctx):
		e.find("reachable", Fail, speaksTLS, e.say(useHTTPS, s.url.Host))
		return false
	}
	e.find("reachable", OK, e.say("it answers with %s", health.Proto), "")
	models, err := s.get(ctx, "/v1/models", false)
	if err != nil {
		e.findUnreachable(ctx, s, "models", "/v1/models: ", err)
		return false
	}
	if !e.identify(health, models) {
		return false
	}
	access := e.checkAccess(ctx, s, models)
	e.checkNetwork(ctx, s, access)
	if access == accessRefused {
		e.releases()
		return false
	}
	if e.ask {
		if r := e.checkAnswer(ctx, s); r != nil {
			e.recordShown(r)
			if r.ended {
				e.checkDetails(ctx, s, r)
			}
		}
	}
	return true
}

// identify reports whether Hermes answers, according to its replies without a key, and records the
// version that Hermes names.
func (e *examination) identify(health, models reply) bool {
	listed := models.StatusCode == http.StatusOK && models.says("object") == "list"
	switch {
	case health.isHermes():
		e.find("hermes", OK, "/health names the platform hermes-agent", "")
		e.recordVersion(health.says("version"))
	case listed && models.says("data.0.owned_by") == "hermes":
		e.find("hermes", OK, "/v1/models lists a model that Hermes owns", "")
		e.find("version", Info, e.say("unknown: /health is not Hermes' own (status %d)", health.StatusCode), "Something stands in front of it.")
	case models.refuses() && models.says("error.code") == "gateway_auth_failed":
		e.find("hermes", OK, "/v1/models rejects requests in Hermes' own words", "")
	default:
		says, why := e.describeStranger(health, models, listed)
		e.find("hermes", Fail, says, why+"Hermes' API server listens on port 8642 unless API_SERVER_PORT says otherwise. No key has been sent.")
		return false
	}
	if via := health.Header.Get("Via"); strings.Contains(via, "Caddy") {
		e.find("hermes", Warn, "a Caddy stands in front of it"+e.quoted(via),
			"If that is the sidecar, use the address of Hermes itself as --to, and this one as --through.")
	}
	return true
}

// describeStranger describes the server that answers instead of Hermes.
func (e *examination) describeStranger(health, models reply, listed bool) (says, why words) {
	switch status := health.StatusCode; {
	case listed:
		return "an OpenAI-compatible server answers, but not Hermes", "Its /health does not name hermes-agent. "
	case status/100 == 3:
		return e.say("it redirects (status %d) to “%s”", status, health.Header.Get("Location")),
			"Redirects are not followed, because the key must not go elsewhere. Use the address that it redirects to if that is Hermes. "
	case status >= http.StatusBadGateway && status <= http.StatusGatewayTimeout:
		return e.say("a proxy answers (status %d) and does not reach Hermes%s", status, e.quoted(health.message())),
			"Start Hermes, or correct its address in the proxy. "
	case health.refuses():
		return e.say("something asks for credentials (status %d) before it identifies itself", status),
			"Hermes answers /health without a key, so this is a proxy in front of it, or not Hermes. Use the address of Hermes itself. "
	case health.isHTML() || models.isHTML():
		return "a web page answers, not Hermes", "This may be the user interface of a chat, or the wrong port. "
	}
	return e.say("something else answers: /health has status %d, /v1/models %d", health.StatusCode, models.StatusCode), ""
}

// recordVersion notes the version that /health names, "" for none.
func (e *examination) recordVersion(version string) {
	r, ok := parseRelease(version)
	known := evidence{span{r, r}, "/health says so"}
	switch {
	case version == "":
		known = evidence{span{oldest, 16_999}, "/health names no version"}
		e.find("version", Info, "unknown: /health names none", "Hermes names its version since 0.17.")
	case !ok:
		known = evidence{span{17_000, newest}, "/health names a version"}
		e.find("version", Info, e.say("“%s”, which is not a release", version), "/health says so.")
	default:
		e.Version = string(e.say("%s", version))
		e.find("version", OK, words(e.Version), "")
	}
	e.evidence = append(e.evidence, known)
}

// checkSidecar examines the sidecar in front of the agent, as a client of it.
func (e *examination) checkSidecar(ctx context.Context, s *server) {
	r, err := s.get(ctx, "/health", false)
	logins := err == nil && r.refuses()
	if logins && e.clientKey != "" {
		r, err = s.get(ctx, "/health", true)
	}
	if !e.checkHealth(ctx, s, r, err) {
		return
	}
	a := accessUnknown
	switch models, err := s.get(ctx, "/v1/models", false); {
	case logins:
		a = accessKey
	case err != nil:
	case models.StatusCode == http.StatusOK:
		a = accessAnyone
	case models.refuses():
		a = accessKey
	}
	e.checkNetwork(ctx, s, a)
	if !e.ask || a != accessAnyone && s.key == "" {
		return
	}
	answer := e.checkAnswer(ctx, s)
	if answer != nil {
		e.checkRoute(answer)
	}
	switch {
	case answer == nil || !answer.ended:
	case answer.changed:
		e.find("repaired", Warn, "this answer still needs a repair: "+e.steps(answer),
			"That route contains no hermes, or its options leave this unchanged.")
	case e.reading != nil && e.reading.changed:
		e.find("repaired", OK, "everything that needed a repair is repaired", "")
	default:
		e.find("repaired", Info, "the answer needs no repair, with or without the sidecar", "")
	}
}

// checkHealth adds the finding about the answer to GET /health, or about the error in its place. ok says
// that a Hermes has given it.
func (e *examination) checkHealth(ctx context.Context, s *server, r reply, err error) (ok bool) {
	switch {
	case err != nil:
		level := Fail
		if e.subject.configured {
			level = Warn // a check before the first start
		}
		says, why := e.explain(ctx, s, err)
		if errors.Is(err, syscall.ECONNREFUSED) {
			why = "The sidecar is not running, or listens elsewhere. Start it, and run this command again."
		}
		e.find("reachable", level, says, why)
		return false
	case r.refuses() && e.clientKey != "":
		e.find("reachable", Fail, e.say("it rejects the client's key (status %d%s)", r.StatusCode, e.quoted(r.message())),
			"Use a key that the site accepts, prefixed with Basic if it is the base64 of user:password.")
		return false
	case r.refuses():
		e.find("reachable", Info, e.say("it asks for credentials (status %d)", r.StatusCode),
			"It checks them before Hermes does. Put a client's key into HERMES_CLIENT_KEY, or into a file for --client-key-file, to examine more.")
		return false
	case r.StatusCode >= http.StatusInternalServerError:
		e.find("reachable", Fail, e.say("it answers with status %d%s", r.StatusCode, e.quoted(r.message())),
			"It does not reach Hermes: check the address behind hermes_proxy or reverse_proxy.")
		return false
	case !r.isHermes():
		e.find("reachable", Fail, e.say("the server at that address does not forward /health to Hermes (status %d)", r.StatusCode),
			"Check the address, and that the route with hermes matches every path.")
		return false
	}
	e.find("reachable", OK, e.say("it answers with %s, and reaches a Hermes", r.Proto), "")
	return true
}

// checkRoute adds a finding that says whether hermes is in the route that the answer came by.
func (e *examination) checkRoute(answer *reading) {
	if answer.sidecar != "" {
		e.find("hermes", OK, "hermes is in that route"+e.quoted(answer.sidecar), "The answer has the header "+proxy.SidecarHeader+", with its version.")
		return
	}
	e.find("hermes", Warn, "nothing shows that hermes is in that route: the answer has no header "+proxy.SidecarHeader,
		"Put hermes in front of the handler that answers there. With announce off it sends no such header.")
}
