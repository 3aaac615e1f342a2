package doctor

import (
	"context"
	"net/http"
	"strings"
)

// modelList is the answer of /v1/models.
type modelList struct {
	Object string `json:"object"`
	Data   []struct {
		ID      string `json:"id"`
		OwnedBy string `json:"owned_by"`
	} `json:"data"`
}

// identify finds out whether it is Hermes that answers, by what it says without a key,
// and which version it names.
func (e *examination) identify(health, models *reply) bool {
	var is struct {
		Platform string  `json:"platform"`
		Version  *string `json:"version"`
	}
	var list modelList
	listed := models.status == http.StatusOK && models.json(&list) && list.Object == "list"
	_, code := errorOf(models.body)
	switch {
	case health.status == http.StatusOK && health.json(&is) && is.Platform == "hermes-agent":
		e.find("hermes", OK, "/health names the platform hermes-agent", "")
		e.version(is.Version)
	case listed && len(list.Data) > 0 && list.Data[0].OwnedBy == "hermes":
		e.find("hermes", OK, "/v1/models lists a model that Hermes owns", "")
		e.find("version", Info, e.say("unknown: /health is not Hermes' own (status %d)", health.status), "Something stands in front of it.")
	case models.refuses() && code == "gateway_auth_failed":
		e.find("hermes", OK, "/v1/models refuses in Hermes' own words", "")
	default:
		says, why := e.stranger(health, models, listed)
		e.find("hermes", Fail, says, why)
		return false
	}
	e.evidenceOfRefusal(models)
	if strings.Contains(health.header.Get("Via"), "Caddy") {
		e.find("hermes", Warn, "a Caddy stands in front of it"+e.quoted(health.header.Get("Via")),
			"If that is the sidecar, give the address of Hermes itself here, and this one as --through.")
	}
	return true
}

// stranger says what answers instead of Hermes.
func (e editor) stranger(health, models *reply, listed bool) (says, why words) {
	const port words = "Hermes' API server listens on port 8642 unless API_SERVER_PORT says otherwise. No key has been sent."
	proxyError, _ := errorOf(health.body)
	switch {
	case listed:
		return "an OpenAI-compatible server answers, but not Hermes", "Its /health does not name hermes-agent. " + port
	case health.status/100 == 3:
		return e.say("it redirects (status %d) to “%s”", health.status, health.header.Get("Location")),
			"Redirects are not followed, because the key must not go elsewhere. Use the address that it redirects to if that is Hermes. " + port
	case health.status == http.StatusBadGateway, health.status == http.StatusServiceUnavailable, health.status == http.StatusGatewayTimeout:
		return e.say("a proxy answers (status %d) and does not reach Hermes%s", health.status, e.quoted(proxyError)),
			"Start Hermes, or correct the address that the proxy has. " + port
	case health.refuses():
		return e.say("something asks for credentials (status %d) before it says who it is", health.status),
			"Hermes answers /health without a key, so this is a proxy in front of it, or not Hermes. Ask Hermes at its own address. " + port
	case health.isHTML() || models.isHTML():
		return "a web page answers, not Hermes", "This may be a chat's user interface, or the wrong port. " + port
	}
	return e.say("something else answers: /health has status %d, /v1/models %d", health.status, models.status), port
}

// version notes the version that /health names, nil for none.
func (e *examination) version(version *string) {
	if version == nil {
		e.evidence = append(e.evidence, evidence{span{oldest, last(16)}, "/health names no version"})
		e.find("version", Info, "unknown: /health names none", "Hermes names its version since 0.17.")
		return
	}
	r, ok := parseRelease(*version)
	if !ok {
		e.evidence = append(e.evidence, evidence{span{minor(17), newest}, "/health names a version"})
		e.find("version", Info, e.say("“%s”, which is no release", *version), "/health says so.")
		return
	}
	e.Version = e.said(*version)
	e.evidence = append(e.evidence, evidence{span{r, r}, "/health says so"})
	e.find("version", OK, words(e.Version), "")
}

// evidenceOfRefusal notes what the refusal of a request without a key says of the
// release.
func (e *examination) evidenceOfRefusal(models *reply) {
	if models.status != http.StatusUnauthorized {
		return
	}
	switch _, code := errorOf(models.body); code {
	case "gateway_auth_failed":
		e.evidence = append(e.evidence, evidence{span{19_001, newest}, "the code of its refusal"})
	case "invalid_api_key":
		e.evidence = append(e.evidence, evidence{span{oldest, 19_000}, "the code of its refusal"})
	}
}

// features are members of /v1/capabilities, each with the first release that has it. The
// wheels on PyPI were read for those that have been released.
var features = []struct {
	name  string
	since release
}{
	{"session_key_header", minor(13)},
	{"session_chat_streaming", minor(15)},
}

// capabilities asks for what the release can do, which dates those that name no version.
func (e *examination) capabilities(ctx context.Context, s *server) {
	const path = "/v1/capabilities"
	r, err := s.get(ctx, path, true)
	if err != nil {
		return // what counts has been answered
	}
	var is struct {
		Object   string         `json:"object"`
		Features map[string]any `json:"features"`
	}
	switch {
	case r.status == http.StatusNotFound:
		e.evidence = append(e.evidence, evidence{span{oldest, last(11)}, "there is no " + path})
	case r.status == http.StatusOK && r.json(&is) && is.Object == "hermes.api_server.capabilities":
		e.evidence = append(e.evidence, evidence{span{minor(12), newest}, "there is " + path})
		for _, f := range features {
			if _, has := is.Features[f.name]; has {
				e.evidence = append(e.evidence, evidence{span{f.since, newest}, path + " has " + f.name})
			} else {
				e.evidence = append(e.evidence, evidence{span{oldest, f.since - 1}, path + " has no " + f.name})
			}
		}
	}
}
