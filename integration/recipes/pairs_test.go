package recipes

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// A directive is a line of a Caddyfile, with its block if it has one.
type directive struct {
	line  string
	block []directive
	opens bool
}

// word is its name.
func (d directive) word() string { return strings.Fields(d.line)[0] }

// parseCaddyfile reads directives without their comments.
func parseCaddyfile(lines []string) (all []directive, rest []string) {
	for len(lines) > 0 {
		line := strings.TrimSpace(lines[0])
		lines = lines[1:]
		switch {
		case line == "" || line[0] == '#':
		case line == "}":
			return all, lines
		case line == "{" || strings.HasSuffix(line, " {"):
			d := directive{line: strings.TrimSuffix(strings.TrimSuffix(line, "{"), " "), opens: true}
			d.block, lines = parseCaddyfile(lines)
			all = append(all, d)
		default:
			all = append(all, directive{line: line})
		}
	}
	return all, nil
}

// write writes directives.
func write(b *strings.Builder, all []directive) {
	for _, d := range all {
		b.WriteString(d.line)
		if d.opens {
			b.WriteString(" {\n")
			write(b, d.block)
			b.WriteString("}")
		}
		b.WriteString("\n")
	}
}

// besideHermes calls f with each list of directives that has hermes.
func besideHermes(all *[]directive, f func(*[]directive)) {
	if slices.ContainsFunc(*all, func(d directive) bool { return d.line == "hermes" }) {
		f(all)
	}
	for i := range *all {
		if d := &(*all)[i]; d.line != "hermes" {
			besideHermes(&d.block, f)
		}
	}
}

// unite adds to what a directive says what another one of the same name says.
func unite(to *directive, from directive) {
	if len(from.line) > len(to.line) { // it names more upstreams
		to.line = from.line
	}
	to.opens = to.opens || from.opens
	for _, d := range from.block {
		i := slices.IndexFunc(to.block, func(o directive) bool { return o.line == d.line })
		if i < 0 {
			to.block = append(to.block, d)
		} else {
			unite(&to.block[i], d)
		}
	}
}

// askedByReplicas returns the handle for the path at which replicas ask each other, which docs/replicas.md wants where a site checks
// who asks.
func askedByReplicas(hermes directive) directive {
	return directive{line: "handle /hermes/replicas", opens: true, block: []directive{{line: "hermes", opens: true, block: cloned(hermes.block)}, {line: "respond 404"}}}
}

// combine adds the directives of a site to those of another one, as one who reads both pages does: options of the same
// handler stand together, handlers stand in front of hermes, a handle in front of others, and everything else is added.
func combine(site, add []directive) []directive {
	for _, a := range add {
		matched := strings.Contains(a.line, " @")
		switch w := a.word(); {
		case w == "bind" || w == "tls" || w == "log" || w == "encode":
			if !slices.ContainsFunc(site, func(d directive) bool { return d.word() == w }) {
				site = append(site, a)
			}
		case w == "hermes" || w == "hermes_resume" || w == "hermes_queue" || w == "tracing" || w == "reverse_proxy" && !matched:
			besideHermes(&site, func(list *[]directive) {
				i := slices.IndexFunc(*list, func(d directive) bool { return d.word() == w && !strings.Contains(d.line, " @") })
				if i < 0 {
					i = slices.IndexFunc(*list, func(d directive) bool { return d.line == "hermes" })
					*list = slices.Insert(*list, i, directive{line: a.line, opens: a.opens})
				}
				unite(&(*list)[i], directive{line: a.line, opens: a.opens, block: cloned(a.block)})
			})
		case w == "handle" && slices.ContainsFunc(site, func(d directive) bool { return d.line == a.line }):
			unite(&site[slices.IndexFunc(site, func(d directive) bool { return d.line == a.line })], a)
		case w == "handle":
			i := slices.IndexFunc(site, func(d directive) bool { return d.word() == "handle" })
			site = slices.Insert(site, max(i, 0), a)
		default:
			site = append(site, a)
		}
	}
	return site
}

func cloned(all []directive) (c []directive) {
	for _, d := range all {
		d.block = cloned(d.block)
		c = append(c, d)
	}
	return c
}

// A snippet is a configuration of a page, and what the page promises of it.
type snippet struct {
	name    string
	door    bool // it decides who may ask, so it is combined with no other that does
	promise func(*pair)
	// The headers of two users, by default two keys.
	ann, ben []string
}

func bearer(key string) []string { return []string{"Authorization", "Bearer " + key} }

const (
	annKey, benKey, webuiKey = "ann-0123456789abcdef", "ben-0123456789abcdef", "webui-0123456789abcdef"
	benUser                  = "0b9d8c7a-1e2f-4a3b-8c4d-5e6f7a8b9c0e"
	// The password hiccup, at the least cost.
	hiccup = "$2a$04$qYWiIjRTWQ/9jyvd/y2Gd.N26fxRZT/BTjzvQevRIRY.CazNK4pX2"
)

// snippets are those of the pages that have hermes in a site. The fenced ones have the names of their recipes, the others
// those of their pages.
var snippets = []snippet{
	{name: "who-asks", door: true, promise: (*pair).knowsUsers, ann: append(bearer(webuiKey), "X-OpenWebUI-User-Id", webUser), ben: append(bearer(webuiKey), "X-OpenWebUI-User-Id", benUser)},
	{name: "who-asks-sso", door: true, promise: (*pair).knowsUsers, ann: []string{"Cookie", "session=ann", "Remote-User", "ben"}, ben: []string{"Cookie", "session=ben"}},
	{name: "keys", door: true, promise: (*pair).refuses, ann: bearer(annKey), ben: bearer(benKey)},
	{name: "passwords", door: true, promise: (*pair).refuses, ann: basicOf("alice", "open sesame")},
	{name: "forward-auth", door: true, promise: (*pair).refuses, ann: []string{"Cookie", "session=ann"}, ben: []string{"Cookie", "session=ben"}},
	{name: "existing-site", door: true, promise: (*pair).servesTheRest},
	{name: "http3", promise: (*pair).answers},
	{name: "cors", promise: (*pair).admitsPages},
	{name: "several-agents", promise: (*pair).answers},
	{name: "behind-a-proxy", promise: (*pair).answers},
	{name: "lost-answers", promise: (*pair).findsLostAnswers},
	{name: "approvals", promise: (*pair).asksByLink},
	{name: "approvals-reply", promise: (*pair).asksForReply},
	{name: "resume.md", promise: (*pair).resumes},
	{name: "queue.md", promise: (*pair).queues},
	{name: "queue.md 2", promise: (*pair).queues},
	{name: "observability.md", promise: (*pair).answers},
	{name: "operating.md", promise: (*pair).answers},
	{name: "open-webui.md", promise: (*pair).answers},
	{name: "tools.md", promise: (*pair).answers},
	{name: "replicas.md", promise: (*pair).asksReplicas},
}

func basicOf(user, password string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
}

// site returns the directives of the snippet's site with hermes, and of the site with its page if it has one.
func (s snippet) site(t testing.TB) (all []directive) {
	t.Helper()
	text := fenced(t)[s.name]
	sites, _ := parseCaddyfile(strings.Split(text, "\n"))
	for _, site := range sites {
		if strings.Contains(fmt.Sprint(site.block), "hermes") && site.line != "" {
			all = append(all, site.block...)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no site", s.name)
	}
	return all
}

// fenced returns the configurations with hermes of the pages that TestPairs combines, by their names, or by their page's
// name and how many were before.
func fenced(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob(recipePages)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"approvals", "queue", "resume", "observability", "operating", "open-webui", "tools", "replicas"} {
		files = append(files, harness.Path("docs/"+page+".md"))
	}
	all := map[string]string{}
	for _, file := range files {
		n := 0
		for _, m := range fence.FindAllStringSubmatch(harness.ReadFile(t, file), -1) {
			if m[1] != "caddyfile" || !regexp.MustCompile(`(?m)^\t+hermes( |$)`).MatchString(m[3]) {
				continue
			}
			name := m[2]
			if n++; name == "" || filepath.Base(file) == "replicas.md" {
				name = strings.TrimSuffix(fmt.Sprintf("%s %d", filepath.Base(file), n), " 1")
			}
			all[name] = m[3]
		}
	}
	return all
}

// Every configuration of these pages is one of TestPairs.
func TestEverySnippetIsPaired(t *testing.T) {
	for name := range fenced(t) {
		if !slices.ContainsFunc(snippets, func(s snippet) bool { return s.name == name }) {
			t.Errorf("TestPairs does not know %s", name)
		}
	}
}

// A pair is a site that two snippets make, with an agent of its own.
type pair struct {
	*hermes.Agent
	t        *testing.T
	base     string
	ann, ben []string // headers; nil for a user that the site does not know
	path     string   // of chats
}

// TestPairs combines every two snippets of the pages in one site, and wants what both pages promise. All sites are of
// one Caddy.
func TestPairs(t *testing.T) {
	authority := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := strings.CutPrefix(r.Header.Get("Cookie"), "session=")
		switch {
		case !ok:
			w.WriteHeader(http.StatusUnauthorized)
		case who != "unnamed":
			w.Header().Set("Remote-User", who)
		}
	}))
	t.Cleanup(authority.Close)
	www := t.TempDir()
	harness.WriteFile(t, filepath.Join(www, "index.html"), []byte("welcome"))
	var text strings.Builder
	text.WriteString("{\n\tadmin off\n\tauto_https off\n}\n")
	type check struct {
		*pair
		a, b snippet
	}
	var checks []check
	for i, a := range snippets {
		for _, b := range snippets[i+1:] {
			if a.door && b.door || strings.HasPrefix(b.name, a.name+" ") { // one or the other
				continue
			}
			p := &pair{Agent: hermes.New(t, 0), base: "http://" + harness.FreePort(t), ann: bearer(annKey), ben: bearer(benKey), path: "/v1/chat/completions"}
			p.Origin = "https://chat.example.com"
			if a.door && a.ann != nil {
				p.ann, p.ben = a.ann, a.ben
			}
			base, add := a.site(t), b.site(t)
			if i := slices.IndexFunc(add, func(d directive) bool { return d.line == "hermes" }); a.door && strings.Contains(fmt.Sprint(add[i]), "approvals replicas") {
				add = append(add, askedByReplicas(add[i]))
			}
			site := slices.DeleteFunc(combine(base, add), func(d directive) bool { return d.word() == "tls" || d.word() == "bind" })
			besideHermes(&site, func(list *[]directive) { // so that what others do in this Caddy does not count
				for i, d := range *list {
					switch d.word() {
					case "hermes_resume":
						(*list)[i] = directive{line: d.line, opens: true, block: append(d.block, directive{line: "max_detached 1000"})}
					case "hermes_queue":
						block := slices.DeleteFunc(slices.Clone(d.block), func(o directive) bool { return o.word() == "runs" })
						(*list)[i] = directive{line: d.line, opens: true, block: append(block, directive{line: "runs 1"})}
					}
				}
			})
			var b2 strings.Builder
			write(&b2, []directive{{line: p.base, opens: true, block: site}})
			text.WriteString(strings.NewReplacer("127.0.0.1:8642", p.Addr, "127.0.0.1:8652", p.Addr, "10.0.0.11:8642 10.0.0.12:8642 10.0.0.13:8642", p.Addr,
				"127.0.0.1:9091", authority.Listener.Addr().String(), "https://hermes.example.com", p.base, "/srv/www", www).Replace(b2.String()))
			checks = append(checks, check{p, a, b})
		}
	}
	sidecar.NewRecipe(t, text.String()).Caddy("KEY_ALICE="+annKey, "KEY_BOB="+benKey, "KEY_OPENWEBUI="+webuiKey, "API_SERVER_KEY=the-agents-own", "ALICE_PASSWORD_HASH="+hiccup, "HERMES_REPLICAS_SECRET="+strings.Repeat("s", 32))
	t.Run("all", func(t *testing.T) {
		for _, c := range checks {
			t.Run(c.a.name+" and "+c.b.name, func(t *testing.T) {
				t.Parallel()
				p := *c.pair
				p.t = t
				c.a.promise(&p)
				c.b.promise(&p)
			})
		}
	})
}

// ask sends a prompt as a user, with more headers.
func (p *pair) ask(user []string, prompt string, more ...string) *client.Reply {
	p.t.Helper()
	body := fmt.Sprintf(`{"model": "hermes-agent", "stream": true, "messages": [{"role": "user", "content": %s}]}`, hermes.ASCII(prompt))
	return client.New(p.t, p.base).Send(http.MethodPost, p.path, strings.NewReader(body), slices.Concat(user, more)...)
}

// send sends a request without a body, and returns its status.
func (p *pair) send(method, path string, header ...string) (*client.Reply, int) {
	p.t.Helper()
	r := client.New(p.t, p.base).Send(method, path, nil, header...)
	return r, r.StatusCode
}

// asked is how often the agent has begun to work on a prompt.
func (p *pair) asked(prompt string) (n int) {
	for _, heard := range p.Heard() {
		if heard == prompt {
			n++
		}
	}
	return n
}

func (p *pair) answers() {
	p.t.Helper()
	if body := p.ask(p.ann, "hello").All(); !strings.Contains(body, "bye") || !strings.Contains(body, "data: [DONE]") {
		p.t.Errorf("the answer is %q", body)
	}
}

// refuses: who is not known gets nothing, and the agent is asked with its own key.
func (p *pair) refuses() {
	p.t.Helper()
	p.answers()
	for _, r := range p.Requests() {
		if r.Key != "Bearer the-agents-own" {
			p.t.Errorf("the agent is asked with %q", r.Key)
		}
	}
	n := len(p.Requests())
	for _, header := range [][]string{nil, bearer("nobody-0123456789abcdef")} {
		if r := p.ask(header, "hello"); r.StatusCode != http.StatusUnauthorized {
			p.t.Errorf("a stranger: %s", r.Status)
		}
	}
	if len(p.Requests()) != n {
		p.t.Error("the agent is asked by a stranger")
	}
}

// knowsUsers: the agent is told who asks, and nobody reaches what it has of others.
func (p *pair) knowsUsers() {
	p.t.Helper()
	p.refuses()
	p.ask(p.ben, "hello from ben").All()
	if ann, ben := p.Of(p.t, "hello").Header.Get("X-Hermes-Session-Key"), p.Of(p.t, "hello from ben").Header.Get("X-Hermes-Session-Key"); ann == "" || ben == "" || ann == ben {
		p.t.Errorf("the users are %q and %q", ann, ben)
	}
	p.ask([]string{"Cookie", "session=unnamed", "Remote-User", "ann"}, "hello from nobody").All() // or refused
	for _, r := range p.Requests() {
		if key := r.Header.Get("X-Hermes-Session-Key"); r.Prompt == "hello from nobody" && key != "" {
			p.t.Errorf("nobody is %q", key)
		}
	}
	for _, path := range []string{"/v1/runs", "/api/sessions", "/v1/responses"} {
		if _, status := p.send(http.MethodPost, path, p.ann...); status != http.StatusNotFound {
			p.t.Errorf("%s: %d", path, status)
		}
	}
}

// servesTheRest: files, and the agent below another path.
func (p *pair) servesTheRest() {
	p.t.Helper()
	p.answers()
	q := *p
	q.path = "/coder/v1/chat/completions"
	q.answers()
	if body := client.New(p.t, p.base).Get("/"); body != "welcome" {
		p.t.Errorf("the files: %q", body)
	}
}

// admitsPages: a preflight is answered, and a page may read answers.
func (p *pair) admitsPages() {
	p.t.Helper()
	origin := []string{"Origin", p.Origin}
	r, status := p.send(http.MethodOptions, p.path, append(origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type,x-hermes-detach")...)
	if allowed := strings.Join(r.Header.Values("Access-Control-Allow-Headers"), ", "); status != http.StatusOK || !strings.Contains(allowed, "Authorization") || !strings.Contains(allowed, "X-Hermes-Detach") {
		p.t.Errorf("the preflight: %d %v", status, r.Header)
	}
	answer := p.ask(p.ann, "hello", origin...)
	if got := answer.Header.Values("Access-Control-Allow-Origin"); len(got) != 1 || got[0] != p.Origin {
		p.t.Errorf("%s may be read by %q", answer.Status, got)
	}
	answer.All()
}

// leaves asks as ann, and leaves when the agent works on it. It returns the address of the stream, which is there for
// ann alone.
func (p *pair) leaves(prompt string, header ...string) (address string) {
	p.t.Helper()
	first := p.ask(p.ann, prompt, header...)
	address = first.Header.Get("Content-Location")
	p.Until(p.t, prompt)
	first.Leave()
	if _, status := p.send(http.MethodHead, address, p.ann...); address == "" || status != http.StatusOK {
		p.t.Errorf("its client asks for the stream %q: %d", address, status)
	}
	if p.ben != nil {
		for _, method := range []string{http.MethodHead, http.MethodDelete} {
			if _, status := p.send(method, address, p.ben...); status != http.StatusNotFound {
				p.t.Errorf("another user: %s: %d", method, status)
			}
		}
	}
	return address
}

// resumes: an answer goes on without its client, which finds it by its address or its key.
func (p *pair) resumes() {
	p.t.Helper()
	const prompt = "slow: on"
	address := p.leaves(prompt, "Idempotency-Key", "one", "X-Hermes-Detach", "5m")
	r, status := p.send(http.MethodGet, address, p.ann...)
	p.End(prompt)
	if body := r.All(); status != http.StatusOK || !strings.Contains(body, "bye") {
		p.t.Errorf("its client continues: %d %q", status, body)
	}
	if r := p.ask(p.ann, prompt, "Idempotency-Key", "one"); r.Header.Get("Content-Location") != address || p.asked(prompt) != 1 {
		p.t.Errorf("the same key is another stream, and the agent was asked %d times", p.asked(prompt))
	}
	if _, status := p.send(http.MethodDelete, address, p.ann...); status != http.StatusNoContent {
		p.t.Errorf("its client ends the stream: %d", status)
	}
}

// findsLostAnswers: the same request in the same chat brings the answer whose connection broke, to the same user, and
// after that another one.
func (p *pair) findsLostAnswers() {
	p.t.Helper()
	const prompt = "slow: lost"
	chat := []string{"X-Chat-Id", "1"}
	address := p.leaves(prompt, chat...)
	if p.ben != nil {
		p.ask(p.ben, "slow: of ben", chat...).Leave()
	}
	again := p.ask(p.ann, prompt, chat...)
	if got := again.Header.Get("Content-Location"); got != address {
		p.t.Errorf("the stream is %q, then %q", address, got)
	}
	p.End("slow: of ben")
	p.End(prompt)
	if again.All(); p.asked(prompt) != 1 {
		p.t.Errorf("the agent was asked %d times", p.asked(prompt))
	}
	if third := p.ask(p.ann, prompt, chat...); third.Header.Get("Content-Location") == address {
		p.t.Error("the answer is brought a second time")
	} else {
		third.All()
	}
}

// The chats of Open WebUI and of LibreChat name the field by which the site of lost answers knows them.
func TestRecipeLostAnswers(t *testing.T) {
	const field = "X-Chat-Id"
	recipeOf(t, "lost-answers").With("{header."+field+"}", "")
	recipeOf(t, "open-webui-headers").With(field, "")
	recipeOf(t, "librechat-headers").With(field, "")
}

// queues: a request for which the agent has no place waits, and is told so.
func (p *pair) queues() {
	p.t.Helper()
	first := p.ask(p.ann, "slow: first", "X-Hermes-Detach", "0s")
	p.Until(p.t, "slow: first")
	second := p.ask(p.ann, "slow: second", "X-Hermes-Detach", "0s")
	if line, err := readTo(second, "Waiting in line: you are next"); err != nil {
		p.t.Errorf("%v after %q", err, line)
	}
	if p.Has("slow: second") {
		p.t.Error("the agent works on both")
	}
	p.End("slow: first")
	p.End("slow: second")
	first.All()
	second.All()
}

// readTo reads an answer until a text has come.
func readTo(r *client.Reply, text string) (read string, err error) {
	for !strings.Contains(read, text) {
		line, err := r.In.ReadString('\n')
		if read += line; err != nil {
			return read, err
		}
	}
	return read, nil
}

// asksByLink: what the agent asks has a page behind its login, which answers it.
func (p *pair) asksByLink() {
	p.t.Helper()
	const prompt = "by link"
	p.On(prompt, hermes.Asks(hermes.Command{Text: "rm -rf " + prompt}), hermes.Reports("Done: "))
	r := p.ask(p.ann, prompt)
	read, err := readTo(r, `hermes_approval_url`)
	page := regexp.MustCompile(`/hermes/approve/[\w-]+`).FindString(read)
	if err != nil || page == "" {
		p.t.Fatalf("no link in %q: %v", read, err)
	}
	alice := append(basicOf("alice", "hiccup"), "Content-Type", "application/x-www-form-urlencoded", "Origin", p.base)
	for _, q := range []struct {
		method string
		header []string
		want   int
	}{
		{http.MethodGet, p.ann, http.StatusUnauthorized},
		{http.MethodGet, alice, http.StatusOK},
		{http.MethodPost, alice[2:], http.StatusUnauthorized},
		{http.MethodPost, alice, http.StatusOK},
	} {
		if a := client.New(p.t, p.base).Send(q.method, page, strings.NewReader(map[string]string{http.MethodPost: "choice=once"}[q.method]), q.header...); a.StatusCode != q.want {
			p.t.Fatalf("%s of the page: %s, want %d", q.method, a.Status, q.want)
		}
	}
	r.All() // which has ended before, where a reply brings the rest
	p.WantRan(p.t, "rm -rf "+prompt, 1)
}

// asksReplicas: a replica may ask, with the secret only, and the page is there.
func (p *pair) asksReplicas() {
	p.t.Helper()
	if _, status := p.send(http.MethodPost, "/hermes/replicas"); status != http.StatusForbidden {
		p.t.Errorf("an ask that is not signed: %d", status)
	}
	if r, _ := p.send(http.MethodGet, "/hermes/approve/"+strings.Repeat("x", 32), basicOf("alice", "hiccup")...); !strings.Contains(r.All(), "Nothing to answer here") {
		p.t.Errorf("the page: %s", r.Status)
	}
	p.answers()
}

// asksForReply: the answer ends with a code, and the reply brings the rest.
func (p *pair) asksForReply() {
	p.t.Helper()
	const prompt = "for a reply"
	p.On(prompt, hermes.Asks(hermes.Command{Text: "rm -rf " + prompt}), hermes.Reports("Done: "))
	body := p.ask(p.ann, prompt).All()
	reply := regexp.MustCompile(`approve [A-Z0-9]{4}-[A-Z0-9]{4}`).FindString(body)
	if reply == "" {
		p.t.Fatalf("no code in %q", body)
	}
	if body := p.ask(p.ann, reply).All(); !strings.Contains(body, "Done: once") {
		p.t.Errorf("the reply is answered by %q", body)
	}
}
