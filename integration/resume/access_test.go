package resume

import (
	"encoding/base64"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// passwordHash is one of "secret".
const passwordHash = "$2a$04$CZKEu/vcJou9IpBT4zBkMObH5h/bK3A2/n7lvM0GFd/SC5bYDpTBm"

// basic returns the credentials of a user whose password is "secret".
func basic(user string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":secret"))
}

// statuses returns what each way to a stream answers somebody with the credentials: the
// same request again, a POST and a GET behind an event, and DELETE, which comes last.
func statuses(t *testing.T, c *client.Client, id, credentials string) (all [4]int) {
	t.Helper()
	all[0] = leave(c.Chat(key, "k", "Authorization", credentials))
	all[1] = leave(c.Chat(behind, id+"/1", "Authorization", credentials))
	for i, method := range []string{http.MethodGet, http.MethodDelete} {
		r, err := http.NewRequestWithContext(t.Context(), method, c.Base+"/v1/chat/completions/"+id, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", credentials)
		res, err := c.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		all[2+i] = res.StatusCode
	}
	return all
}

// leave returns the status of an answer that nobody needs.
func leave(r *client.Reply) int {
	r.Leave()
	return r.StatusCode
}

// TestRevokedCredentialsGetNothing where basic_auth checks them: Caddy orders it in front of
// hermes_resume, so that it is asked for a stream that is kept as well.
func TestRevokedCredentialsGetNothing(t *testing.T) {
	rest := make(chan struct{})
	up := upstream.New(t, held(rest))
	admin, listen := harness.FreePort(t), harness.FreePort(t)
	config := func(users ...string) string {
		return site("http://"+listen, "admin "+admin, "hermes_resume\n\thermes\n\treverse_proxy "+up.Addr+"\n\tbasic_auth {\n\t\t"+
			strings.Join(users, " "+passwordHash+"\n\t\t")+" "+passwordHash+"\n\t}")
	}
	s := sidecar.RunCaddyfile(t, t.TempDir(), config("alice", "bob"))
	c := client.New(t, "http://"+listen)
	c.Reloading = true
	first := c.Chat(key, "k", "Authorization", basic("alice"))
	id := first.Header.Get(stream)
	frame(t, first)
	frame(t, first)
	first.Leave()
	again := c.Chat(behind, id+"/1", "Authorization", basic("alice"))
	if again.StatusCode != http.StatusOK {
		t.Fatalf("alice: %s", again.Status)
	}
	again.Leave()
	reload(t, admin, config("bob"), s)
	if got, want := statuses(t, c, id, basic("alice")), [4]int{401, 401, 401, 401}; got != want {
		t.Errorf("alice, who may not come any more: %d, want %d", got, want)
	}
	if got, want := statuses(t, c, id, basic("bob")), [4]int{200, 404, 404, 404}; got != want { // the key is his own
		t.Errorf("bob: %d, want %d", got, want)
	}
	reload(t, admin, config("alice", "bob"), s)
	if got, want := statuses(t, c, id, basic("alice")), [4]int{200, 200, 200, 204}; got != want {
		t.Errorf("alice, who may come again: %d, want %d", got, want)
	}
	close(rest)
	if n := len(up.Requests()); n != 2 {
		t.Errorf("upstream was asked %d times, want once for each user", n)
	}
}

// TestChecksBehindAreNotAskedAgain, as docs/resume.md says.
func TestChecksBehindAreNotAskedAgain(t *testing.T) {
	rest := make(chan struct{})
	close(rest)
	up := upstream.New(t, held(rest))
	admin, listen := harness.FreePort(t), harness.FreePort(t)
	config := func(user string) string {
		return site("http://"+listen, "admin "+admin, "route {\n\t\thermes_resume\n\t\tbasic_auth {\n\t\t\t"+user+" "+passwordHash+"\n\t\t}\n\t\thermes\n\t\treverse_proxy "+up.Addr+"\n\t}")
	}
	s := sidecar.RunCaddyfile(t, t.TempDir(), config("alice"))
	c := client.New(t, "http://"+listen)
	c.Reloading = true
	if r := c.Chat(key, "k", "Authorization", basic("mallory")); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("mallory: %s", r.Status)
	}
	first := c.Chat(key, "k", "Authorization", basic("alice"))
	id := first.Header.Get(stream)
	first.All()
	reload(t, admin, config("bob"), s)
	if got, want := statuses(t, c, id, basic("alice")), [4]int{200, 200, 200, 204}; got != want {
		t.Errorf("alice: %d, want %d", got, want)
	}
	if r := c.Chat(key, "k", "Authorization", basic("alice")); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("alice, for whom upstream would have to be asked: %s", r.Status)
	}
}

// TestAccessLogOfKeysAndIDs has what docs/resume.md says, and not with the filter from there.
func TestAccessLogOfKeysAndIDs(t *testing.T) {
	for name, filter := range map[string]string{"without a filter": "log", "with the filter": filterOfPage(t)} {
		t.Run(name, func(t *testing.T) {
			rest := make(chan struct{})
			close(rest)
			up := upstream.New(t, held(rest))
			base, s := run(t, up, "", filter+"\n\thermes_resume\n\thermes")
			c := client.New(t, base)
			first := c.Chat(key, "the-key", "Authorization", "Bearer the-secret")
			id := first.Header.Get(stream)
			first.All()
			c.Chat(behind, id+"/1", "Authorization", "Bearer the-secret").All()
			_, body := client.Get(t, c.HTTP, base+"/v1/chat/completions/"+id, "Authorization", "Bearer the-secret")
			if body == "" {
				t.Error("GET got nothing")
			}
			if !s.Says(`"hermes_resumed":"begun"`) || !s.Says(`"hermes_resumed":"continued"`) || !s.Says(`"hermes_resumed":"replayed"`) {
				t.Fatalf("not all lines are in the log\n%s", s.Log)
			}
			log := s.Log.String()
			if strings.Contains(log, "the-secret") {
				t.Errorf("credentials are in the log\n%s", log)
			}
			for _, what := range []string{"the-key", id} {
				if got, want := strings.Contains(log, what), filter == "log"; got != want {
					t.Errorf("%s is in the log: %v, want %v\n%s", what, got, want, log)
				}
			}
		})
	}
}

// filterOfPage returns the log with a filter that docs/resume.md shows.
func filterOfPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/resume.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```caddyfile\nlog {")
	filter, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no filter in docs/resume.md")
	}
	return "log {" + filter
}
