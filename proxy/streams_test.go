package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// among puts an exchange into the set, with a drain_timeout.
func among(s *proxy.Streams, drain time.Duration) setting {
	return option(func(o *proxy.Options) { o.Streams, o.DrainTimeout = s, drain })
}

func TestDrain(t *testing.T) {
	for _, c := range []struct{ name, limits, does, answers string }{
		{
			"streams go on for the drain timeout", "drain=10s",
			"header role shutdown +9s text +1s! stopped abort", "role text partial:shutdown",
		},
		{
			"a stream that finishes meanwhile", "drain=10s", "header role shutdown +9s text stop done end",
			"role text stop done",
		},
		{
			"one that has, but is open", "drain=10s", "header role text stop shutdown +10s! stopped abort",
			"role text stop done",
		},
		{"no header", "drain=10s", "shutdown +10s! waits", "502:shutdown"},
		{"the header is held", "drain=10s", "header shutdown +10s! stopped abort", "502:shutdown"},
		{
			"a limit that is shorter", "drain=10s", "header role shutdown=4s +4s! stopped",
			"role error:shutdown",
		},
		{
			"a limit that is longer", "drain=10s", "header role shutdown=1m +10s! stopped",
			"role error:shutdown",
		},
		{
			"as long as there is time", "drain=2562047h47m16s", "header role +9s shutdown +1h text stop done end",
			"role text stop done",
		},
		{"a limit that long", "drain=10s", "header role +9s shutdown=2562047h47m16s +9s text +1s! stopped", "role text partial:shutdown"},
		{"no drain timeout", "", "header role shutdown=1m now stopped", "role error:shutdown"},
		{
			"twice is once", "drain=10s", "header role shutdown +9s shutdown=1s +1s! stopped",
			"role error:shutdown",
		},
	} {
		scene{name: c.name, limits: c.limits, does: c.does, answers: c.answers}.run(t)
	}
	elsewhere := []setting{path(otherPath)}
	for _, s := range []scene{
		{
			name: "the client is gone", limits: "drain=1s", does: "header role leave shutdown +1s late-timer abort", answers: "role",
			outcome: "client_gone", goesOn: "abort",
		},
		{
			name: "a stream that becomes active later", limits: "drain=1s", set: elsewhere,
			does: "header foreign shutdown +1h role stopped abort", answers: "foreign role error:shutdown",
		},
	} {
		s.run(t)
	}
	// An answer that the Proxy does not repair is cut by the server, if at all, as it would be
	// without a Proxy.
	for _, shutdown := range []string{"shutdown", "shutdown=5s"} {
		for _, s := range []scene{
			{name: "another request", set: elsewhere},
			{name: "another's JSON", set: elsewhere, does: "json"},
			{name: "a foreign stream", set: elsewhere, does: "header"},
			{name: "a download", does: "download"},
			{name: "a download that is large", does: "large"},
		} {
			s.name += ", " + shutdown
			s.limits, s.set = "drain=1s", append(s.set, asking(`{"stream": false}`))
			s.does, s.answers, s.outcome = s.does+" "+shutdown+" +1h late-timer running part end", "part", "-"
			s.run(t)
		}
	}
}

func TestEachStreamHasTheDrainTimeoutOfItsProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		equal(t, streams.Open(), 0, "open streams")
		short := begin(t, among(streams, 2*time.Second))
		long := begin(t, among(streams, 8*time.Second))
		for _, x := range []*exchange{short, long} {
			x.Stream()
			x.Write(role)
		}
		equal(t, streams.Open(), 2, "open streams")
		streams.Shutdown(0)
		advance(2 * time.Second)
		short.WantBody(role + errorFinish("shutting_down", false))
		long.WantBody(role)
		advance(6 * time.Second)
		long.WantBody(role + errorFinish("shutting_down", false))
		short.Ret(nil)
		equal(t, streams.Open(), 1, "open streams")
		long.Ret(nil)
		equal(t, streams.Open(), 0, "open streams")
	})
}

func TestSlowClientDoesNotKeepOthersFromBeingDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		slow := begin(t, among(streams, 10*time.Second))
		quick := begin(t, among(streams, 5*time.Second))
		quick.Stream()
		quick.Write(role)
		slow.Stream()

		taking, took := make(chan struct{}), make(chan struct{})
		slow.Rec.OnWrite = func(b []byte) (int, error) {
			close(taking)
			<-took
			return len(b), nil
		}
		slow.Start(func() { _, _ = slow.W.Write([]byte(role)) })
		<-taking
		slow.Rec.OnWrite = nil

		returned := make(chan struct{})
		go func() {
			streams.Shutdown(0)
			close(returned)
		}()
		<-returned
		later := begin(t, among(streams, 5*time.Second))
		equal(t, streams.Open(), 3, "open streams")
		advance(5 * time.Second)
		quick.WantBody(role + errorFinish("shutting_down", false))
		quick.Ret(nil).WantSwallowed(t)
		later.UntilCancelled().WantSwallowed(t)
		later.WantAnswer(http.StatusBadGateway, "shutting_down")

		time.Sleep(5 * time.Second) // the end waits for the client
		close(took)
		<-slow.Ack
		synctest.Wait()
		slow.WantBody(role + errorFinish("shutting_down", false))
		slow.Ret(nil).WantSwallowed(t)
		equal(t, streams.Open(), 0, "open streams")
	})
}

func TestLimitHoldsForLaterStreamsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		first := begin(t, among(streams, 10*time.Second))
		first.Stream()
		streams.Shutdown(4 * time.Second)
		advance(3 * time.Second)
		later := begin(t, among(streams, 10*time.Second))
		later.Stream()
		later.Write(role)
		advance(time.Second - 1)
		later.WantBody(role)
		advance(1)
		later.WantBody(role + errorFinish("shutting_down", false))
		advance(time.Hour)
		last := httptest.NewRecorder()
		p := proxy.New(proxy.Options{Streams: streams, Limits: proxy.Limits{DrainTimeout: 10 * time.Second}})
		p.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("the agent is asked after the drain")
		})).ServeHTTP(last, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil))
		if last.Code != http.StatusBadGateway || !strings.Contains(last.Body.String(), `"shutting_down"`) {
			t.Errorf("%d %s", last.Code, last.Body)
		}
	})
}
