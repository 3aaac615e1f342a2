package clients

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// The recipe docs/recipes/lost-answers.md with the real programs: the answer whose connection broke
// comes back, and the agent runs once.

// lostAnswers returns a fenced block of the page.
func lostAnswers(t testing.TB, name string) string {
	t.Helper()
	m := regexp.MustCompile("(?ms)^```\\S+ " + name + "\n(.*?)^```$").FindStringSubmatch(harness.ReadFile(t, harness.Path("docs/recipes/lost-answers.md")))
	if m == nil {
		t.Fatalf("the page has no %s", name)
	}
	return m[1]
}

// A scissors is a way to a sidecar whose connections a test ends.
type scissors struct {
	url  string
	mu   sync.Mutex
	all  []net.Conn
	sent strings.Builder // to clients
}

// newScissors starts the recipe's sidecar, and a way to it. How long the agent goes on does not
// matter on a slow machine.
func newScissors(t testing.TB, up string) *scissors {
	t.Helper()
	listen := harness.FreePort(t)
	sidecar.NewRecipe(t, lostAnswers(t, "lost-answers")).With(":8643", ":"+harness.Port(listen)).
		With("127.0.0.1:8642", up).With("detach 1m", "detach 1h").With("\t\t# How", "\t\tkeep 1h\n\t\t# How").Caddy()
	return newScissorsTo(t, "http://"+listen)
}

// newScissorsTo makes a way to a URL.
func newScissorsTo(t testing.TB, base string) *scissors {
	s := &scissors{}
	s.url = relay(t, base, func(down *net.TCPConn, dial func() (net.Conn, error)) {
		to, err := dial()
		if err != nil {
			return
		}
		defer to.Close()
		s.mu.Lock()
		s.all = append(s.all, down)
		s.mu.Unlock()
		go func() {
			pass(to, down, func([]byte) {})
			to.Close()
		}()
		pass(down, to, func(b []byte) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.sent.Write(b)
		})
	})
	return s
}

// cut ends all connections that there are.
func (s *scissors) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		c.Close()
	}
	s.all = nil
}

// passed waits until a text has come by so many times.
func (s *scissors) passed(t testing.TB, text string, n int) {
	t.Helper()
	harness.Until(t, text+" comes by", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Count(s.sent.String(), text) >= n
	})
}

// TestOpenWebUILostAnswers: Regenerate brings the answer whose connection broke, while its tool
// still runs, and after that another one. Questions for titles are none of its business.
func TestOpenWebUILostAnswers(t *testing.T) {
	program := openWebUI(t)
	a := newAgent(t, "hermes-agent")
	s := newScissors(t, a.up.Addr)
	h := &house{agents: map[string]*agent{"hermes-agent": a}}
	configs := `OPENAI_API_CONFIGS={"0": {"enable": true, "headers": ` + strings.TrimSpace(lostAnswers(t, "open-webui-headers")) + `}}`
	h.webui = newWebUI(t, startOpenWebUI(t, program, []string{s.url + "/v1"}, configs))
	regenerate := func() {
		t.Helper()
		m, _ := h.stored()
		h.before = m.ID
		browser.Eval[any](h.Tab, `[...document.getElementsByClassName("regenerate-response-button")].at(-1).click()`)
	}
	asked := func(n int) {
		t.Helper()
		if got := a.count(); got != n {
			t.Errorf("the agent was asked %d times, want %d", got, n)
		}
	}
	h.open("hermes-agent")
	h.ask("hold g3-v0.20.3/one_tool")
	h.Wait(shows("Let me check."))
	s.cut()
	if m, raw := h.ended(); m.Error == nil {
		t.Fatalf("the cut is not seen: %s", raw)
	}
	regenerate()
	h.Wait(shows("Let me check."))
	asked(1)
	a.proceed()
	m, _ := h.ended()
	h.checkGood(t, m, "one_tool")
	asked(1)

	regenerate()
	a.proceed()
	m, _ = h.ended()
	h.checkGood(t, m, "one_tool")
	asked(2)
	harness.Until(t, "titles and the like are asked for", func() bool { return a.askedAside() >= 3 })
}

// TestLibreChatLostAnswers: LibreChat's engine repeats a request by itself whose answer has not
// begun, and joins. If the answer breaks off, a user who regenerates it gets it, and after that
// another one.
func TestLibreChatLostAnswers(t *testing.T) {
	if os.Getenv(libreChatVariable) != "install" {
		t.Skip("LibreChat is not run: " + libreChatVariable + "=install installs and runs what of it talks to models")
	}
	t.Setenv(clientsVariable, "install")
	modules, err := (&workshop{t: t}).installModules("librechat")
	if err != nil {
		t.Fatal(err)
	}
	d := startDriver(t, exec.Command("node", besideModules(t, modules, "librechat/librechat.mjs")))
	d.ready()
	asked, begin, goOn := make(chan struct{}, 9), make(chan struct{}, 9), make(chan struct{}, 9)
	up := upstream.New(t, func(x *upstream.Exchange) {
		asked <- struct{}{}
		if !x.Wait(begin) {
			return
		}
		x.Begin("Hello")
		if x.Wait(goOn) {
			x.Frame(hermes.Delta("content", " world"))
			x.Finish()
		}
	})
	s := newScissors(t, up.Addr)
	template := regexp.MustCompile(`(X-Chat-Id): "\{\{LIBRECHAT_BODY_CONVERSATIONID\}\}"`).FindStringSubmatch(lostAnswers(t, "librechat-headers"))
	if template == nil {
		t.Fatal("the recipe has no such header")
	}
	ask := func() <-chan seen { // as LibreChat does with the headers of a conversation
		got := make(chan seen, 1)
		go func() {
			got <- d.send(map[string]any{"base_url": s.url + "/v1", "prompt": "hi", "headers": map[string]string{template[1]: "a conversation"}}, harness.Patience)
		}()
		return got
	}
	whole := func(got seen, n int) {
		t.Helper()
		if got.Text != "Hello world" || got.Error != nil || got.hung {
			t.Errorf("it sees %+v", got)
		}
		if have := len(up.Requests()); have != n {
			t.Errorf("the agent was asked %d times, want %d", have, n)
		}
	}
	first := ask()
	await(t, asked)
	s.cut() // before the answer
	begin <- struct{}{}
	goOn <- struct{}{}
	whole(await(t, first), 1)

	second := ask() // the answer that it has does not come again
	await(t, asked)
	begin <- struct{}{}
	s.passed(t, "Hello", 2)
	s.cut() // in the text
	if got := await(t, second); got.Error == nil {
		t.Errorf("the cut is not seen: %+v", got)
	}
	goOn <- struct{}{}
	whole(await(t, ask()), 2)

	third := ask()
	await(t, asked)
	begin <- struct{}{}
	goOn <- struct{}{}
	whole(await(t, third), 3)
}
