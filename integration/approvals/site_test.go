// Package approvals tests from the outside who may answer what an agent asks, in every way that
// there is, and that nothing runs that its own client did not approve, exactly once. It tests the
// page of hermes_approvals in a headless Chromium; HERMES_PICTURES names a directory for pictures of it.
package approvals

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// A place is a sidecar with a site in front of an agent and another with the page.
type place struct {
	*hermes.Agent
	admin, api, page string         // URLs of the endpoint and of the sites
	clients          *client.Client // of both sites
	caddy            *sidecar.Process
}

// The lines of the site that its tests choose.
const (
	byLink  = "approvals link PAGE text"
	byReply = "approvals reply"
	byUser  = "approvals by {header.X-User}"

	// These begin lines of others than hermes.
	onPage = "page: "
	resume = "resume: " // in the place of "always chat 1m"; the line "off" for no hermes_resume
	beside = "beside: " // directives beside hermes
)

// newPlace starts a sidecar whose handler has those lines.
func newPlace(t testing.TB, lines ...string) *place {
	t.Helper()
	return newPlaceOf(t, hermes.New(t, 0), lines...)
}

// newPlaceOf starts it in front of an agent that is there.
func newPlaceOf(t testing.TB, a *hermes.Agent, lines ...string) *place {
	t.Helper()
	p := preparePlace(t, a)
	p.start(t, lines)
	return p
}

// preparePlace has what a place has before start.
func preparePlace(t testing.TB, a *hermes.Agent) *place {
	t.Helper()
	return &place{
		Agent: a, admin: "http://" + harness.FreePort(t), api: "http://" + harness.FreePort(t), page: "http://" + harness.FreePort(t),
		clients: client.New(t, ""),
	}
}

// start starts the sidecar.
func (p *place) start(t testing.TB, lines []string, env ...string) {
	t.Helper()
	p.caddy = sidecar.RunCaddyfile(t, t.TempDir(), p.caddyfile(lines...), env...)
	p.caddy.Admin = strings.TrimPrefix(p.admin, "http://")
}

// caddyfile is a configuration whose handler has those lines.
func (p *place) caddyfile(lines ...string) string {
	of := map[string][]string{}
	for _, line := range lines {
		kind, rest, ok := strings.Cut(line, ": ")
		if !ok {
			kind, rest = "", line
		}
		of[kind+": "] = append(of[kind+": "], rest)
	}
	if of[resume] == nil {
		of[resume] = []string{"always chat 1m"}
	}
	block := func(name, kind string) string { return name + " {\n" + strings.Join(of[kind], "\n") + "\n}\n" }
	site := block("hermes", ": ") + "reverse_proxy " + p.Addr
	if of[resume][0] != "off" {
		site = block("hermes_resume", resume) + site
	}
	return p.around(strings.Join(of[beside], "\n")+"\n"+site, block("hermes_approvals", onPage))
}

// around is a configuration with directives of the site of the agent and of the page's.
func (p *place) around(site, page string) string {
	text := "{\nadmin " + strings.TrimPrefix(p.admin, "http://") + "\n}\n"
	for url, directives := range map[string]string{p.api: site, p.page: page} {
		text += sidecar.OnLoopback(strings.TrimPrefix(url, "http://")) + "log\n" + directives + "\n}\n"
	}
	return strings.ReplaceAll(text, "PAGE", p.page+"/hermes/approve")
}

// load replaces the configuration.
func (p *place) load(t testing.TB, caddyfile string) {
	t.Helper()
	p.clients.Reloading = true
	p.caddy.LoadCaddyfile(caddyfile)
}

// sent returns the bodies of all requests that the agent has got.
func (p *place) sent() (all []string) {
	for _, r := range p.Requests() {
		all = append(all, r.Body)
	}
	return all
}

// A person is a client of the site.
type person struct {
	t    testing.TB
	at   *place
	key  string
	user string // of those who share the key
}

// A said is what a person has said, or has been told: the messages of a chat, first the user's.
type said []string

// body is a request for an answer to a chat.
func (s said) body(stream bool) string {
	var messages []string
	for i, text := range s {
		messages = append(messages, `{"role": "`+[]string{"user", "assistant"}[i%2]+`", "content": `+hermes.Quoted(text)+`}`)
	}
	mode := ""
	if stream {
		mode = `"stream": true, `
	}
	return `{"model": "hermes-agent", ` + mode + `"messages": [` + strings.Join(messages, ", ") + `]}`
}

// asks sends a chat for a stream.
func (p person) asks(messages ...string) *held {
	p.t.Helper()
	return p.posts(said(messages).body(true))
}

// posts sends a request to the site.
func (p person) posts(body string) *held {
	p.t.Helper()
	r, err := p.tries(body)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// tries posts a request with more header fields: name, value, name, value.
func (p person) tries(body string, header ...string) (*held, error) {
	return p.sends(http.MethodPost, "/v1/chat/completions", body, header...)
}

func (p person) sends(method, path, body string, header ...string) (*held, error) {
	r, err := p.at.clients.Of(p.t).Ask(method, p.at.api+path, strings.NewReader(body), append(header, "Authorization", "Bearer "+p.key, "X-User", p.user)...)
	if err != nil {
		return nil, err
	}
	return &held{Reply: r, t: p.t}, nil
}

// A held is an answer that is read until it asks.
type held struct {
	*client.Reply
	t         testing.TB
	read      strings.Builder
	url, code string // of what was asked last
}

// wait reads to the next event that asks.
func (h *held) wait() *held {
	h.t.Helper()
	for {
		e, err := h.next()
		if err != nil {
			h.t.Fatalf("instead of a question: %v after %q", err, h.read.String())
		}
		if e.Name == "approval.request" {
			h.url, h.code = offered(e.Data)
			return h
		}
	}
}

// next reads an event.
func (h *held) next() (e strict.Event, err error) {
	for {
		raw := ""
		for line := ""; line != "\n" && err == nil; {
			line, err = h.In.ReadString('\n')
			raw += line
		}
		h.read.WriteString(raw)
		if err != nil {
			return e, err
		}
		if raw = notOfEvents.ReplaceAllString(raw, ""); raw != "" {
			return strict.Parse(raw)
		}
	}
}

// offered returns what the data of an event offers to a client.
func offered(data string) (url, code string) {
	var q struct {
		URL  string `json:"hermes_approval_url"`
		Code string `json:"hermes_approval_code"`
	}
	json.Unmarshal([]byte(data), &q)
	return q.URL, q.Code
}

// notOfEvents are the lines that hermes_resume adds, and comments, which have no blank line of their
// own there.
var notOfEvents = regexp.MustCompile(`(?m)^id: .*\n|^:.*\n\n?`)

// ends reads the rest, and decodes all of the answer.
func (h *held) ends() *strict.Answer {
	h.t.Helper()
	h.read.WriteString(h.All())
	return strict.Decode(h.t, notOfEvents.ReplaceAllString(h.read.String(), ""))
}

// A sheet is a page as it is shown.
type sheet struct {
	status int
	header http.Header
	text   string // of the page, in HTML
}

// words are what a reader sees.
func (s sheet) words() string {
	noStyle := regexp.MustCompile(`(?s)<style.*?</style>|<title.*?</title>`).ReplaceAllString(s.text, "")
	return strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(noStyle, " "))), " ")
}

// buttons returns the choices that the page offers.
func (s sheet) buttons() (all []string) {
	for _, m := range regexp.MustCompile(`<button[^>]* value="([^"]*)"`).FindAllStringSubmatch(s.text, -1) {
		all = append(all, m[1])
	}
	return all
}

// visits opens a page, as a browser that follows a link.
func (p person) visits(page string) sheet {
	p.t.Helper()
	return p.browses(http.MethodGet, page, "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
}

// presses presses a button of a page.
func (p person) presses(page, choice string) sheet {
	p.t.Helper()
	u, err := url.Parse(page)
	if err != nil || u.Host == "" {
		p.t.Fatalf("no page %q", page)
	}
	return p.browses(http.MethodPost, page, url.Values{"choice": {choice}}.Encode(),
		"Content-Type", "application/x-www-form-urlencoded", "Origin", u.Scheme+"://"+u.Host, "Sec-Fetch-Site", "same-origin")
}

func (p person) browses(method, page, body string, header ...string) sheet {
	p.t.Helper()
	s, err := p.browse(method, page, body, header...)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p person) browse(method, page, body string, header ...string) (sheet, error) {
	r, err := p.at.clients.Of(p.t).Ask(method, page, strings.NewReader(body), header...)
	if err != nil {
		return sheet{}, err
	}
	return sheet{r.StatusCode, r.Header, r.All()}, nil
}

// textOf is the text of an answer without the paragraph that asks.
func textOf(a *strict.Answer) string {
	return strings.TrimSpace(paragraph.ReplaceAllString(a.Content, " "))
}

// paragraph is what the sidecar adds to the text of an answer.
var paragraph = regexp.MustCompile("(?m)\\s*^`🔐 Approval needed`.*$\\s*")
