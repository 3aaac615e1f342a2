package doctor

import (
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
		e.known = evidence{span{oldest, last(16)}, "/health names no version"}
		e.find("version", Info, "unknown: /health names none", "Hermes names its version since 0.17.")
		return
	}
	r, ok := parseRelease(*version)
	if !ok {
		e.known = evidence{span{minor(17), newest}, "/health names a version"}
		e.find("version", Info, e.say("“%s”, which is no release", *version), "/health says so.")
		return
	}
	e.Version = e.said(*version)
	e.known = evidence{span{r, r}, "/health says so"}
	e.find("version", OK, words(e.Version), "")
}
