package deskcaddy_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestThePageShowsWhatIsAsked, with the answers that upstream offers, and answers nothing.
func TestThePageShowsWhatIsAsked(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	var u upstream
	_, path := u.ticket(t, "rm -rf victim")
	for range 3 {
		a := s.get(path).want(200, "rm -rf victim", "recursive delete", "terminal", "59 minutes ",
			`<html lang="en">`, "<title>May this command run? – Hermes</title>", `<meta name="viewport"`,
			`value="once"`, `value="session"`, `value="deny"`, `!value="always"`,
			"Anyone who has this link", "can answer for each other", "!<script", "!Marked characters", "!longer than")
		css := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(a.body)[1]
		sum := sha256.Sum256([]byte(css))
		for name, want := range map[string]string{
			"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Content-Security-Policy": "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
				"'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		head := s.send("HEAD", path, "").want(200)
		if head.body != "" || head.header.Get("Content-Length") != a.header.Get("Content-Length") {
			t.Errorf("HEAD: %q, %v", head.body, head.header)
		}
		s.get(path + "?choice=once").want(200)
		s.send("GET", path, "choice=once", form...).want(200)
		s.send("HEAD", path+"?choice=once", "").want(200)
	}
	if len(u.sent) != 0 {
		t.Errorf("opening it has answered %q", u.sent)
	}
}

// TestAnswers: each choice is sent once and said in words.
func TestAnswers(t *testing.T) {
	s := newSite(t, "hermes_approvals {\n allow_always\n }")
	for c, want := range map[rewrite.ApprovalChoice][2]string{
		desk.Once:    {"The command runs, once.", "The command was approved once."},
		desk.Session: {"rest of the session", "approved for the session"},
		desk.Always:  {"does not ask about commands like it again", "approved permanently"},
		desk.Deny:    {"<h1>Denied</h1>", "The command was denied."},
	} {
		var u upstream
		_, path := u.ticket(t, "rm -rf victim")
		s.get(path).want(200, `value="`+string(c)+`"`)
		s.choose(path, c).want(200, want[0], "!<form", "!rm -rf")
		s.get(path).want(200, "Already answered", want[1], "!<form", "!rm -rf")
		for _, again := range all {
			s.choose(path, again).want(409, "Already answered", want[1])
		}
		if len(u.sent) != 1 || u.sent[0] != c {
			t.Errorf("%s: sent %q", c, u.sent)
		}
	}
}

// TestAnswersOfHeldStreams: the chat has ended, and only a reply brings the rest.
func TestAnswersOfHeldStreams(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	for _, c := range []rewrite.ApprovalChoice{desk.Once, desk.Deny} {
		var u upstream
		ticket, path := u.ticket(t, "rm -rf victim")
		ticket.Hold(func(http.ResponseWriter, *http.Request) error { return nil })
		s.choose(path, c).want(200, "Send the reply that the chat asks for", "!continues in the chat")
	}
}

// TestWhatHermesSaysBecomesWords.
func TestWhatHermesSaysBecomesWords(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	for name, test := range map[string]struct {
		u      *upstream
		status int
		words  string
		then   int
		again  string
	}{
		"answered elsewhere": {&upstream{result: desk.AlreadyAnswered}, 409, "The request was answered elsewhere.", 200, "Already answered"},
		"too late":           {&upstream{result: desk.TooLate}, 409, "<h1>Too late</h1>", 410, "no longer waits"},
		"away":               {&upstream{err: errAway}, 502, "Hermes did not accept the answer. Try again.", 200, `value="once"`},
	} {
		_, path := test.u.ticket(t, "rm -rf victim")
		t.Log(name)
		s.choose(path, desk.Once).want(test.status, test.words, "!connection refused")
		s.get(path).want(test.then, test.again)
	}
	// Hermes may refuse without an error, such as for credentials that no longer are valid.
	var u upstream
	_, path := u.ticket(t, "rm -rf victim")
	u.result = desk.Refused
	s.choose(path, desk.Once).want(502, "Hermes did not accept the answer. Try again.", `value="once"`)
	u.result = desk.Accepted
	s.choose(path, desk.Once).want(200, "Approved")
}

// TestWhatIsNoTicket has one answer, to the byte: shapes of all sorts, tickets that have
// gone, and those of other users.
func TestWhatIsNoTicket(t *testing.T) {
	s := newSite(t, "hermes_approvals {\n by {http.request.header.User}\n }")
	var u upstream
	ticket, path := u.ticket(t, "rm -rf victim", func(a *desk.Asker, _ *rewrite.ApprovalRequest) { a.By = "alice" })
	id := ticket.ID()
	s.get(path, "User", "alice").want(200, "Only", "alice", "!Everyone")
	never := strings.Repeat("A", 22)
	want := s.get("/hermes/approve/"+never, "User", "alice").want(404, "Nothing to answer here", "!<form")
	paths := []string{
		"/hermes/approve", "/hermes/approve/", "/hermes/approve/x", "/hermes/approve//" + id, "/hermes/approve/" + id + "/", "/hermes/approve/" + id + "/x",
		"/hermes/approve/" + id[:21], "/hermes/approve/" + id + "A", "/hermes/approve/" + id + "%00", "/hermes/approve/%20" + id, "/hermes/approve/x/../" + id,
		"/hermes/approve/..%2f" + id, "/hermes/approve/" + id + "%0a", "/hermes/approve/" + strings.Repeat("A", 5000), "/hermes/approve/%ff%fe", "/hermes/approve/" + id + "=",
	}
	if upper := strings.ToUpper(id); upper != id {
		paths = append(paths, "/hermes/approve/"+upper)
	}
	for _, p := range append(paths, path) {
		user := "alice"
		if p == path {
			user = "mallory"
		}
		for _, a := range []answer{s.get(p, "User", user), s.choose(p, desk.Once, "User", user)} {
			a.want(404)
			a.header.Del("Date")
			want.header.Del("Date")
			if a.body != want.body || fmt.Sprint(a.header) != fmt.Sprint(want.header) {
				t.Errorf("%.60s: %v\n%s\nwant %v\n%s", p, a.header, a.body, want.header, want.body)
			}
		}
	}
	for _, other := range [][]string{{"User", "alice "[:5] + "x"}, {"User", "Alice"}, nil} {
		s.choose(path, desk.Once, other...).want(404)
	}
	if len(u.sent) != 0 {
		t.Errorf("sent %q", u.sent)
	}
	s.choose(path, desk.Once, "User", "alice").want(200, "Approved")

	// Without a user of its own, everyone may answer, and the page says so.
	_, open := u.ticket(t, "rm -rf victim")
	s.get(open, "User", "mallory").want(200, "Anyone who has this link", "!mallory")
}

// TestAPageThatDoesNotTellUsersApart shows the question of a user to each, and says so.
func TestAPageThatDoesNotTellUsersApart(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	var u upstream
	_, path := u.ticket(t, "rm -rf victim", func(a *desk.Asker, _ *rewrite.ApprovalRequest) { a.By = "alice" })
	s.get(path).want(200, "Anyone who has this link", "!alice")
}

// TestForeignSitesAnswerNothing: what a browser sends for them is refused, before it is known whether
// there is a ticket.
func TestForeignSitesAnswerNothing(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	var u upstream
	_, path := u.ticket(t, "rm -rf victim")
	post := func(path string, header ...string) answer {
		return s.send("POST", path, "choice=once", append(header, form...)...)
	}
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", ""},
		{"Origin", "http://page.test", "Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"},
	} {
		a, b := post(path, header...).want(403, "came from another site"), post("/hermes/approve/x", header...)
		if a.body != b.body {
			t.Errorf("%q: it says whether there is a ticket", header)
		}
	}
	if len(u.sent) != 0 {
		t.Fatalf("sent %q", u.sent)
	}
}

// TestAnswersComeFromTheLink, whatever the Host of the request is: a name that leads to this server
// (DNS rebinding) is no address of the page, and a proxy in front may have put another Host there.
func TestAnswersComeFromTheLink(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	var u upstream
	for link, origins := range map[string][2][]string{ // those that may answer, and those that may not
		"http://page.test/hermes/approve": {
			{"http://page.test", "http://PAGE.test", "http://page.test:80"},
			{"null", "", "https://page.test", "http://evil.test", "http://page.test.evil.test", "http://page.test:8080", "ftp://page.test", "page.test", "://", "http://", "http:"},
		},
		"https://chat.example.com/hermes/approve": {
			{"https://chat.example.com", "https://chat.example.com:443"},
			{"http://chat.example.com", "https://chat.example.com:8443", "http://page.test", "https://page.test", "https://example.com"},
		},
		"https://Chat.Example.com:443/approve": {{"https://chat.example.com"}, {"https://chat.example.com:80"}},
		"http://127.0.0.1:8643/hermes/approve": {
			{"http://127.0.0.1:8643"},
			{"http://127.0.0.1", "http://localhost:8643", "http://rebound.evil.test:8643"},
		},
		"http://[::1]:8643/hermes/approve": {{"http://[::1]:8643"}, {"http://[::1]", "http://::1:8643"}},
		"":                                 {nil, {"http://page.test", "null", ""}},
	} {
		of := func(a *desk.Asker, _ *rewrite.ApprovalRequest) { a.Link = link }
		for _, host := range []string{"page.test", "rebound.evil.test:8643", "127.0.0.1:8080", "chat.example.com"} {
			post := func(path string, origins ...string) answer {
				header := append([]string{"Host", host, "Sec-Fetch-Site", "same-origin"}, form...)
				for _, o := range origins {
					header = append(header, "Origin", o)
				}
				return s.send("POST", path, "choice=once", header...)
			}
			for _, origin := range origins[0] {
				_, path := u.ticket(t, "rm -rf victim", of)
				post(path, origin).want(200, "Approved")
			}
			sent := len(u.sent)
			_, path := u.ticket(t, "rm -rf victim", of)
			for _, origin := range append(origins[1], "http://"+host+".evil.test") {
				post(path, origin).want(403, "came from a different address", "approvals link", "!rm -rf")
			}
			if origins[0] != nil {
				post(path, origins[0][0], origins[0][0]).want(403, "came from a different address", "begins with "+origins[0][0]+",")
			}
			if len(u.sent) != sent {
				t.Fatalf("%s: sent %q", link, u.sent[sent:])
			}
			post(path).want(200, "Approved") // a program
		}
	}
}

// TestLinksThatCameTooLate say so, also after their time.
func TestLinksThatCameTooLate(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	var u upstream
	_, path := u.ticket(t, "rm -rf victim", func(a *desk.Asker, _ *rewrite.ApprovalRequest) { a.Timeout = time.Nanosecond })
	s.get(path).want(410, "<h1>Too late</h1>", "!incomplete", "!rm -rf", "!<form", "!refresh")
	s.choose(path, desk.Once).want(409, "<h1>Too late</h1>")
	if len(u.sent) != 0 {
		t.Errorf("sent %q", u.sent)
	}
}

// TestThePageSaysUntilWhen: the time of day, because it counts nothing down, and comes again when that
// is over.
func TestThePageSaysUntilWhen(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	var u upstream
	began := time.Now()
	ticket, path := u.ticket(t, "rm -rf victim")
	a := s.get(path).want(200, "<title>", "When this page was opened", "!<script")
	until := ticket.View().Until
	if until.Before(began.Add(timeout)) || !strings.Contains(a.body, `<time datetime="`+until.UTC().Format(time.RFC3339)+`">`+until.UTC().Format("15:04:05")+" UTC</time>") {
		t.Errorf("no %v in\n%s", until, a.body)
	}
	m := regexp.MustCompile(`<meta http-equiv="refresh" content="(\d+)">`).FindStringSubmatch(a.body)
	if m == nil {
		t.Fatalf("it does not come again:\n%s", a.body)
	}
	n, _ := strconv.Atoi(m[1])
	if again := time.Duration(n) * time.Second; again > timeout+2*time.Second || again < time.Until(until) {
		t.Errorf("it comes again after %v, and the time is over in %v", again, time.Until(until))
	}
}

// TestWhatIsNoAnswer is refused before it is known whether there is a ticket.
func TestWhatIsNoAnswer(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	var u upstream
	_, path := u.ticket(t, "rm -rf victim")
	for _, test := range []struct {
		method, kind, body string
		status             int
	}{
		{"POST", "", "choice=once", 415},
		{"POST", "text/plain", "choice=once", 415},
		{"POST", "application/json", `{"choice":"once"}`, 415},
		{"POST", "multipart/form-data; boundary=x", "choice=once", 415},
		{"POST", "application/x-www-form-urlencoded; charset", "choice=once", 415},
		{"POST", form[1], "", 400},
		{"POST", form[1], "choice=", 400},
		{"POST", form[1], "choice=ONCE", 400},
		{"POST", form[1], "choice=approve", 400},
		{"POST", form[1], "choice=deny&choice=once", 400},
		{"POST", form[1], "choice=once&x=y", 400},
		{"POST", form[1], "choice=once;choice=deny", 400},
		{"POST", form[1], "choice=%zz", 400},
		{"POST", form[1], "choice=once" + strings.Repeat("&", 1<<10), 413},
		{"PUT", form[1], "choice=once", 405},
		{"PATCH", form[1], "choice=once", 405},
		{"DELETE", form[1], "choice=once", 405},
		{"OPTIONS", form[1], "choice=once", 405},
		{"BREW", form[1], "choice=once", 405},
	} {
		a := s.send(test.method, path+"?choice=once", test.body, "Content-Type", test.kind).want(test.status, "!rm -rf")
		b := s.send(test.method, "/hermes/approve/x", test.body, "Content-Type", test.kind)
		if a.body != b.body || test.status == 405 && a.header.Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("%s %q: %v\n%s\nand without a ticket\n%s", test.method, test.body, a.header, a.body, b.body)
		}
	}
	if len(u.sent) != 0 {
		t.Errorf("sent %q", u.sent)
	}
	s.send("POST", path, "choice=deny", "Content-Type", "Application/X-WWW-Form-Urlencoded; charset=UTF-8").want(200, "Denied")
}

// TestChoicesThatAreNotOffered: by upstream, or by the page.
func TestChoicesThatAreNotOffered(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	var u upstream
	_, path := u.ticket(t, "rm -rf victim")
	s.get(path).want(200, `!value="always"`)
	s.choose(path, desk.Always).want(422, "does not offer this answer", `value="once"`)
	_, path = u.ticket(t, "rm -rf victim", func(_ *desk.Asker, q *rewrite.ApprovalRequest) {
		q.Choices = []rewrite.ApprovalChoice{desk.Once}
	})
	s.get(path).want(200, `value="once"`, `!value="session"`, `value="deny"`)
	s.choose(path, desk.Session).want(422, "does not offer this answer")
	_, path = u.ticket(t, strings.Repeat("x", 64<<10)+"y")
	s.get(path).want(200, "longer than 64 KiB", `!value="once"`, `!value="session"`, `value="deny"`, "!xy")
	s.choose(path, desk.Once).want(422, "does not offer this answer")
	_, blank := u.ticket(t, " \n")
	s.get(blank).want(200, "cannot be shown", "only be denied", `!value="once"`, `!value="session"`, `value="deny"`, "!<pre")
	s.choose(blank, desk.Once).want(422, "does not offer this answer")
	if len(u.sent) != 0 {
		t.Errorf("sent %q", u.sent)
	}
	s.choose(path, desk.Deny).want(200, "Denied")
	s.choose(blank, desk.Deny).want(200, "Denied")
}

// TestTwoAnswersAtOnce: one is sent, and the other one learns that, and then what became of it. It is what
// a browser shows after a double click.
func TestTwoAnswersAtOnce(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	begun, goOn := make(chan bool), make(chan bool)
	u := upstream{during: func() { begun <- true; <-goOn }}
	_, path := u.ticket(t, "rm -rf victim")
	var first sync.WaitGroup
	first.Go(func() { s.choose(path, desk.Once).want(200, "Approved") })
	<-begun
	again := `<meta http-equiv="refresh" content="2">`
	s.choose(path, desk.Deny).want(409, "An answer is on its way", again)
	s.get(path).want(200, "An answer is on its way", again, "!<form")
	goOn <- true
	first.Wait()
	s.get(path).want(200, "approved once", "!refresh")
	if len(u.sent) != 1 || u.sent[0] != desk.Once {
		t.Errorf("sent %q", u.sent)
	}
}

// TestNoRequestOfThePageIsInAccessLogs, whatever it is; others are.
func TestNoRequestOfThePageIsInAccessLogs(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	var u upstream
	ticket, path := u.ticket(t, "rm -rf victim")
	s.get(path)
	s.get(path + "/x")
	s.get("/hermes/approve")
	s.send("PUT", path, "")
	s.choose(path, desk.Once, "Referer", "http://page.test"+path)
	s.choose(path, desk.Once)
	s.get("/hermes/approvers").want(299)
	s.get("/other").want(299)
	if err := caddy.Stop(); err != nil { // which writes all of it
		t.Fatal(err)
	}
	log := s.Logged()
	if n := strings.Count(log, "\n"); n != 2 || strings.Contains(log, ticket.ID()) {
		t.Errorf("the log has %d lines:\n%s", n, log)
	}
}

// TestNothingUpstreamSaysIsMarkup, wherever it stands.
func TestNothingUpstreamSaysIsMarkup(t *testing.T) {
	s := newSite(t, "hermes_approvals")
	var u upstream
	for _, evil := range []string{
		"</code></pre><script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "</style><style>*{display:none}", "<!--", "]]>", "{{.ID}}", "&lt;b&gt;", "</title>",
		"'\"`", "<form action=//evil.test>", "<base href=//evil.test>", "</main>\u0000<svg/onload=alert(1)>",
	} {
		_, path := u.ticket(t, evil, func(_ *desk.Asker, q *rewrite.ApprovalRequest) { q.Description, q.Tool = evil, evil })
		a := s.get(path).want(200)
		_, body, _ := strings.Cut(a.body, "<body>")
		tags := regexp.MustCompile(`<[^>]*>`).FindAllString(body, -1)
		for _, tag := range tags {
			if !regexp.MustCompile(`^</?(main|h1|h2|p|pre|code|strong|time|form|button|mark|body|html)\b[^<]*>$`).MatchString(tag) {
				t.Errorf("%q: a tag %q", evil, tag)
			}
		}
		shown := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, ""))
		if got := strings.Count(shown, strings.ReplaceAll(evil, "\x00", "[U+0000]")); got != 3 {
			t.Errorf("%q: shown %d times in\n%s", evil, got, shown)
		}
	}
}

// TestNothingUpstreamSaysIsATemplate of Caddy's, where that directive is in front: a command would
// read files, and could hide a part of itself.
func TestNothingUpstreamSaysIsATemplate(t *testing.T) {
	for _, delimiters := range []string{"{{ }}", "[[ ]]", "<? ?>", "(( ))", "<% %>"} {
		s := newSite(t, "templates {\n between "+delimiters+"\n }\n hermes_approvals")
		var u upstream
		begin, end, _ := strings.Cut(delimiters, " ")
		evil := "echo " + begin + "env `HOME`" + end + begin + "/* ; rm -rf victim */" + end
		_, path := u.ticket(t, evil, func(a *desk.Asker, q *rewrite.ApprovalRequest) { q.Description, q.Tool = evil, evil })
		a := s.get(path).want(200)
		shown := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(a.body, ""))
		if got := strings.Count(shown, evil); got != 3 {
			t.Errorf("%q: shown %d times in\n%s", evil, got, shown)
		}
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestRequestsElsewherePass.
func TestRequestsElsewherePass(t *testing.T) {
	s := newSite(t, "hermes_approvals /ask")
	var u upstream
	ticket, path := u.ticket(t, "rm -rf victim")
	for _, p := range []string{path, "/", "/asks", "/ASK/" + ticket.ID(), "/x/ask/" + ticket.ID()} {
		s.get(p).want(299)
		s.send("POST", p, "choice=once", form...).want(299)
	}
	s.get("/ask/"+ticket.ID()).want(200, "rm -rf victim")
	s.choose("/ask/"+ticket.ID(), desk.Once).want(200)
}

// TestChecksInFrontAreAsked: the page stands behind what authenticates, whatever the order in
// the Caddyfile.
func TestChecksInFrontAreAsked(t *testing.T) {
	s := newSite(t, `hermes_approvals {
		by {http.auth.user.id}
	}
	basic_auth bcrypt {
		alice $2a$04$WJTnnbZ6ZZ4kGqHmBQxGAu6Kbtb5jxEJNRSzYiUFq8v1L4F0PPq9y
	}`)
	var u upstream
	_, path := u.ticket(t, "rm -rf victim")
	s.get(path).want(http.StatusUnauthorized, "!rm -rf")
	s.choose(path, desk.Once).want(http.StatusUnauthorized)
	if len(u.sent) != 0 {
		t.Errorf("sent %q", u.sent)
	}
}

// TestValuesThatAreRefused in JSON, with what to do.
func TestValuesThatAreRefused(t *testing.T) {
	for option, want := range map[string]string{
		`"path":"hermes"`: "such as /hermes/approve", `"path":"/"`: "such as /hermes/approve", `"path":"/a/"`: "without a trailing slash",
		`"path":"/a//b"`: "such as", `"path":"/a/../b"`: "such as", `"path":"/a*"`: "wildcards", `"path":"/{b}"`: "placeholders", `"path":"/a?b"`: "such as", `"path":"/a%20b"`: "such as",
		`"by":"alice"`: "must contain a placeholder, such as {http.auth.user.id}", `"by":"}{"`: "must contain a placeholder",
	} {
		config := `{"admin":{"disabled":true},"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{"handler":"hermes_approvals",` + option + `}]}]}}}}}`
		var c caddy.Config
		if err := caddy.StrictUnmarshalJSON([]byte(config), &c); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(&c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", option, err, want)
		}
	}
}
