package replicas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const secret = "a secret of the replicas with more than 32 characters"

// replica is one process.
type replica struct {
	*Replicas
	desk   *desk.Desk
	server *httptest.Server
	logs   *observer.ObservedLogs
	asked  atomic.Int64 // requests that it got
	sent   chan rewrite.ApprovalChoice
	result desk.Result
	err    error
}

// site returns n replicas behind one list of addresses.
func site(t *testing.T, n int) []*replica {
	t.Helper()
	all := make([]*replica, n)
	var addresses []string
	for i := range all {
		p := &replica{desk: desk.New(), sent: make(chan rewrite.ApprovalChoice, 100), result: desk.Accepted}
		p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.asked.Add(1)
			p.Serve(w, r)
		}))
		t.Cleanup(p.server.Close)
		addresses = append(addresses, p.server.URL)
		all[i] = p
	}
	for _, p := range all {
		p.Replicas, p.logs = replicasAt(t, addresses, secret, p.desk)
	}
	return all
}

func replicasAt(t *testing.T, addresses []string, secret string, d *desk.Desk) (*Replicas, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	p, err := New(addresses, secret, d, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	return p, logs
}

// ticket makes a ticket there.
func (p *replica) ticket(t *testing.T) *desk.Ticket {
	t.Helper()
	tickets := p.desk.Tickets(desk.Asker{
		Owner: [32]byte{1}, By: "ann", Link: "https://hermes.example.com/hermes/approve", Timeout: time.Hour, NewID: p.NewID,
		Send: func(_ context.Context, _ rewrite.ApprovalRequest, c rewrite.ApprovalChoice) (desk.Result, error) {
			p.sent <- c
			return p.result, p.err
		},
	})
	made := tickets.Ask(rewrite.ApprovalRequest{RunID: "run_1", RequestID: fmt.Sprint("req_", p.desk.Stats().Asked), Command: "rm -rf <x> & \"é\"", Choices: []rewrite.ApprovalChoice{desk.Once, desk.Session}})
	if made == nil || !p.IsTicket(made.ID()) {
		t.Fatalf("no ticket: %v", made)
	}
	return made
}

func (p *replica) find(t *testing.T, id string) *Question {
	t.Helper()
	return find(t, p.Replicas, id)
}

func find(t *testing.T, p *Replicas, id string) *Question {
	t.Helper()
	q, err := p.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestAnyReplicaAnswers what one of them was asked, once.
func TestAnyReplicaAnswers(t *testing.T) {
	all := site(t, 3)
	for i, owner := range all {
		made := owner.ticket(t)
		want := made.View()
		var accepted, before atomic.Int64
		var clicks sync.WaitGroup
		for n := range 12 {
			clicks.Go(func() {
				q := all[n%3].find(t, made.ID())
				if v := q.View(); v.State == desk.Waiting && (v.Request.Command != want.Request.Command || len(v.Request.Choices) != 3 || v.By != "ann" || v.Link != want.Link || !v.Until.Equal(want.Until)) {
					t.Errorf("%d: %+v, want %+v", i, v, want)
				}
				switch result, err := q.Answer(t.Context(), desk.Session, desk.Page); {
				case err != nil:
					t.Error(err)
				case result == desk.Accepted:
					accepted.Add(1)
				case result == desk.AlreadyAnswered:
					before.Add(1)
				}
			})
		}
		clicks.Wait()
		if accepted.Load() != 1 || before.Load() != 11 || len(owner.sent) != 1 || <-owner.sent != desk.Session {
			t.Errorf("%d: %d accepted, %d answered before, %d sent", i, accepted.Load(), before.Load(), len(owner.sent))
		}
		if v := all[(i+1)%3].find(t, made.ID()).View(); v.State != desk.Answered || v.Answer != desk.Session {
			t.Errorf("%d: afterwards %+v", i, v)
		}
	}
}

// TestANameOfSeveral: all of its addresses are asked, each once. What cannot be looked up may have the ticket.
func TestANameOfSeveral(t *testing.T) {
	p, logs := replicasAt(t, []string{"http://replicas", "https://Replicas:80/"}, secret, desk.New())
	var asked []string
	var mu sync.Mutex
	p.transport = transport(func(r *http.Request, to string) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, to)
		return nil, syscall.ECONNREFUSED
	})
	p.lookup = func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1"), netip.MustParseAddr("::ffff:10.0.0.1")}, nil
	}
	if q, err := p.Find(t.Context(), p.NewID()); err != nil || q.View().State != desk.Over {
		t.Errorf("%+v, %v", q, err)
	}
	if slices.Sort(asked); !slices.Equal(asked, []string{"10.0.0.1:80", "[fd00::1]:80"}) {
		t.Errorf("asked %q", asked)
	}
	p.lookup = func(context.Context, string, string) (ips []netip.Addr, err error) {
		for i := range maxReplicas + 1 {
			ips = append(ips, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
		}
		return ips, nil
	}
	if _, err := p.Find(t.Context(), p.NewID()); !errors.Is(err, ErrUnknown) || logs.FilterMessage("too many replicas: only some were asked about an approval").Len() != 1 {
		t.Errorf("one was not asked: %v, logged %v", err, logs.All())
	}
	p.lookup = func(_ context.Context, _, host string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	if _, err := p.Find(t.Context(), p.NewID()); err == nil || logs.FilterMessage("looking up the addresses of the replicas failed").Len() == 0 {
		t.Errorf("%v, logged %v", err, logs.All())
	}
}

// TestPathOfAsks: it is that of the addresses, or the default.
func TestPathOfAsks(t *testing.T) {
	for address, path := range map[string]string{"http://a": DefaultPath, "http://a:1/": DefaultPath, "http://a/v1/replicas": "/v1/replicas"} {
		p, _ := replicasAt(t, []string{address}, secret, desk.New())
		for _, other := range []string{path + "/", "/", "/v1/chat/completions"} {
			if p.IsAsked(httptest.NewRequest("POST", other, nil)) || !p.IsAsked(httptest.NewRequest("POST", path, nil)) {
				t.Errorf("%s: %s is for replicas, or %s is not", address, other, path)
			}
		}
		p.transport = transport(func(r *http.Request, _ string) (*http.Response, error) {
			if r.URL.Path != path || r.Header.Get("Content-Type") == "application/json" {
				t.Errorf("%s: asked at %s for %s", address, r.URL.Path, r.Header.Get("Content-Type"))
			}
			return nil, syscall.ECONNREFUSED
		})
		p.lookup = func(context.Context, string, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.IPv4Unspecified()}, nil
		}
		if _, err := p.Find(t.Context(), p.NewID()); err != nil {
			t.Error(err)
		}
	}
}

// TestErrorsOfAnswers are those of the replica that has the ticket.
func TestErrorsOfAnswers(t *testing.T) {
	all := site(t, 2)
	q := all[1].find(t, all[0].ticket(t).ID())
	if result, err := q.Answer(t.Context(), desk.Always, desk.Page); result != desk.Refused || !errors.Is(err, desk.ErrNotOffered) {
		t.Errorf("not offered: %v, %v", result, err)
	}
	all[0].result, all[0].err = desk.Refused, errors.New("upstream is down")
	if result, err := q.Answer(t.Context(), desk.Once, desk.Page); result != desk.Refused || err == nil || err.Error() != "upstream is down" || q.View().State != desk.Waiting {
		t.Errorf("refused: %v, %v, %+v", result, err, q.View())
	}
	all[0].result, all[0].err = desk.TooLate, nil
	if result, err := q.Answer(t.Context(), desk.Once, desk.Page); result != desk.TooLate || err != nil || q.View().State != desk.Over {
		t.Errorf("too late: %v, %v, %+v", result, err, q.View())
	}
}

// TestTicketsOfReplicasThatAreGone are over, at once, and so are those that nobody knows.
func TestTicketsOfReplicasThatAreGone(t *testing.T) {
	all := site(t, 3)
	for name, ids := range map[string][2]string{
		"gone":      {all[0].ticket(t).ID(), all[0].ticket(t).ID()},
		"forgotten": {all[1].NewID(), all[2].NewID()},
	} {
		q := all[1].find(t, ids[1]) // before it is gone
		if name == "gone" {
			all[0].server.Close()
		}
		if result, err := q.Answer(t.Context(), desk.Once, desk.Page); result != desk.TooLate || err != nil || q.View().State != desk.Over {
			t.Errorf("%s: %v, %v, %+v", name, result, err, q.View())
		}
		q = all[2].find(t, ids[0])
		if result, err := q.Answer(t.Context(), desk.Once, desk.Page); q.View().State != desk.Over || result != desk.TooLate || err != nil {
			t.Errorf("%s, found later: %+v, %v, %v", name, q.View(), result, err)
		}
	}
	if len(all[0].sent) != 0 || all[1].logs.Len()+all[2].logs.Len() != 0 { // nor of those that nobody waited for
		t.Errorf("%d sent, logged %v", len(all[0].sent), all[2].logs.All())
	}
}

// transport answers in place of replicas.
type transport func(r *http.Request, to string) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	to, _ := r.Context().Value(toKey{}).(string)
	return f(r, to)
}

// TestSlowReplicas: one that has the ticket is not kept waiting by others, and if none has it, nobody knows
// whether those that do not answer do.
func TestSlowReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := &replica{desk: desk.New(), sent: make(chan rewrite.ApprovalChoice, 1)}
		owner.Replicas, _ = replicasAt(t, []string{"http://127.0.0.1:1"}, secret, owner.desk)
		made := owner.ticket(t)
		p, logs := replicasAt(t, []string{"http://127.0.0.1:1", "http://127.0.0.2:1", "http://127.0.0.3:1"}, secret, desk.New())
		p.transport = transport(func(r *http.Request, to string) (*http.Response, error) {
			if to != "127.0.0.1:1" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			w := httptest.NewRecorder()
			owner.Serve(w, r)
			return w.Result(), nil
		})
		began := time.Now()
		if q, err := p.Find(t.Context(), made.ID()); err != nil || q.View().State != desk.Waiting || time.Since(began) != 0 {
			t.Errorf("%+v, %v after %v", q, err, time.Since(began))
		}
		began = time.Now()
		if _, err := p.Find(t.Context(), p.NewID()); !errors.Is(err, ErrUnknown) || time.Since(began) != findTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if logs.FilterMessage("a replica did not answer a request about an approval").Len() == 0 {
			t.Errorf("logged: %v", logs.All())
		}
		// The replica with the ticket hangs while it sends the answer.
		q, _ := p.Find(t.Context(), made.ID())
		synctest.Wait()
		p.transport = transport(func(r *http.Request, _ string) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		began = time.Now()
		if result, err := q.Answer(t.Context(), desk.Once, desk.Page); result != desk.Refused || err == nil || time.Since(began) != answerTimeout {
			t.Errorf("%v, %v after %v", result, err, time.Since(began))
		}
	})
}

// TestNobodyElseAsks: what is forged, repeated, old, or of another kind does nothing, and says nothing.
func TestNobodyElseAsks(t *testing.T) {
	all := site(t, 2)
	owner := all[0]
	made := owner.ticket(t)
	var asks []*http.Request // as the other replica sends them
	var bodies []string
	all[1].transport = transport(func(r *http.Request, to string) (*http.Response, error) {
		b, _ := io.ReadAll(r.Body)
		asks, bodies = append(asks, r), append(bodies, string(b))
		return nil, errors.New("lost")
	})
	q := &Question{of: all[1].Replicas, ticket: desk.Digest(made.ID()), view: made.View(), at: target{all[1].addresses[0], ""}}
	fresh := func() (*http.Request, string) {
		_, _ = q.Answer(t.Context(), desk.Once, desk.Page)
		last := len(asks) - 1
		return asks[last], bodies[last]
	}
	send := func(r *http.Request, method, body string) (int, string) {
		w := httptest.NewRecorder()
		again := httptest.NewRequest(method, r.URL.String(), strings.NewReader(body))
		again.Header = r.Header
		owner.Serve(w, again)
		return w.Code, w.Body.String()
	}
	stranger, _ := replicasAt(t, []string{"http://127.0.0.1:1"}, strings.ToUpper(secret), desk.New())
	for name, forge := range map[string]func(r *http.Request, body string) (method, forged string){
		"no MAC": func(r *http.Request, body string) (string, string) { r.Header.Del(header); return "POST", body },
		"another secret": func(r *http.Request, body string) (string, string) {
			r.Header.Set(header, stranger.mac("ask", body))
			return "POST", body
		},
		"the MAC of an answer": func(r *http.Request, body string) (string, string) {
			r.Header.Set(header, owner.mac("answer", body))
			return "POST", body
		},
		"another choice": func(_ *http.Request, body string) (string, string) {
			return "POST", strings.Replace(body, "once", "deny", 1)
		},
		"more":           func(_ *http.Request, body string) (string, string) { return "POST", body + " " },
		"another method": func(_ *http.Request, body string) (string, string) { return "PUT", body },
		"no body":        func(_ *http.Request, _ string) (string, string) { return "POST", "" },
		"no JSON": func(r *http.Request, _ string) (string, string) {
			r.Header.Set(header, owner.mac("ask", "x"))
			return "POST", "x"
		},
		"too large": func(r *http.Request, body string) (string, string) {
			body += strings.Repeat(" ", maxAsk)
			r.Header.Set(header, owner.mac("ask", body))
			return "POST", body
		},
		"old": func(r *http.Request, body string) (string, string) {
			return "POST", at(owner, r, body, -maxSkew-time.Second)
		},
		"of the future": func(r *http.Request, body string) (string, string) {
			return "POST", at(owner, r, body, maxSkew+time.Second)
		},
	} {
		r, body := fresh()
		method, forged := forge(r, body)
		if code, said := send(r, method, forged); code != http.StatusForbidden || said != "" {
			t.Errorf("%s: %d %s", name, code, said)
		}
	}
	if len(owner.sent) != 0 || made.View().State != desk.Waiting {
		t.Fatalf("%d sent, %+v", len(owner.sent), made.View())
	}
	if lines := owner.logs.FilterMessage("rejected a request that claims to be from a replica"); lines.Len() != 11 {
		t.Errorf("%d lines", lines.Len())
	}
	// What is true counts once, also if it was refused by upstream and so waits again.
	owner.result = desk.Refused
	r, body := fresh()
	if code, said := send(r, "POST", body); code != 200 || !strings.Contains(said, `"known":true`) || len(owner.sent) != 1 {
		t.Fatalf("%d %s", code, said)
	}
	owner.result = desk.Accepted
	if code, _ := send(r, "POST", body); code != http.StatusForbidden || len(owner.sent) != 1 || made.View().State != desk.Waiting {
		t.Errorf("repeated: %d, %d sent", code, len(owner.sent))
	}
	if n := all[0].asked.Load() + all[1].asked.Load(); n != 0 {
		t.Errorf("it led to %d asks", n)
	}
}

// at returns an ask of another time.
func at(p *replica, r *http.Request, body string, off time.Duration) string {
	before, after, _ := strings.Cut(body, `"time":`)
	_, after, _ = strings.Cut(after, ",")
	body = before + fmt.Sprintf(`"time":%d,`, time.Now().Add(off).UnixMilli()) + after
	r.Header.Set(header, p.mac("ask", body))
	return body
}

// TestWhatIsNoReplica is not believed, whatever it answers: nobody knows whether a replica was there.
func TestWhatIsNoReplica(t *testing.T) {
	all := site(t, 1)
	made := all[0].ticket(t)
	record := func(r *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		all[0].Serve(w, r)
		return w
	}
	var earlier *httptest.ResponseRecorder
	for name, answers := range map[string]func(w http.ResponseWriter, r *http.Request){
		"a login": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, all[0].server.URL, http.StatusTemporaryRedirect)
		},
		"no MAC": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"known":true}`) },
		"an echo": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(header, r.Header.Get(header))
			io.Copy(w, r.Body)
		},
		"an earlier answer": func(w http.ResponseWriter, r *http.Request) {
			said := record(r)
			if earlier == nil {
				earlier = said
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			w.Header().Set(header, earlier.Header().Get(header))
			io.Copy(w, bytes.NewReader(earlier.Body.Bytes()))
		},
		"too large": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, nonce, _ := strings.Cut(string(body), `"nonce":"`)
			nonce, _, _ = strings.Cut(nonce, `"`)
			said := `{"known":true,"error":"` + strings.Repeat("x", maxReplyJSON) + `"}`
			w.Header().Set(header, all[0].mac("answer", nonce+said))
			io.WriteString(w, said)
		},
	} {
		other := httptest.NewServer(http.HandlerFunc(answers))
		p, logs := replicasAt(t, []string{other.URL}, secret, desk.New())
		for range 2 {
			if q, err := p.Find(t.Context(), made.ID()); !errors.Is(err, ErrUnknown) || q.View().State != desk.Over {
				t.Errorf("%s: %+v, %v", name, q, err)
			}
		}
		if logs.Len() == 0 {
			t.Errorf("%s: nothing is logged", name)
		}
		other.Close()
	}
	if n := all[0].asked.Load(); n != 0 {
		t.Errorf("redirected %d times", n)
	}
}

// TestOnlyTicketsOfReplicas are asked for, however much looks like one.
func TestOnlyTicketsOfReplicas(t *testing.T) {
	all := site(t, 2)
	id := all[0].NewID()
	other, _ := replicasAt(t, []string{"http://127.0.0.1:1"}, secret+"!", desk.New())
	if len(id) != 32 || !all[1].IsTicket(id) || other.IsTicket(id) {
		t.Errorf("%q is a ticket: %v, elsewhere %v", id, all[1].IsTicket(id), other.IsTicket(id))
	}
	for i := range id {
		b := []byte(id)
		if b[i]++; all[1].IsTicket(string(b)) {
			t.Errorf("%s is not %s", b, id)
		}
	}
	for _, no := range []string{"", id[:22], id[:31], id + "A", id + "=", id + "\n", "\n" + id, strings.Repeat("A", 32)} {
		if all[1].IsTicket(no) {
			t.Errorf("%q is a ticket", no)
		}
	}
}

// TestAsksAreBounded: how many replicas are asked, and for how many links.
func TestAsksAreBounded(t *testing.T) {
	var addresses []string
	for i := range maxReplicas + 5 {
		addresses = append(addresses, fmt.Sprintf("http://127.0.1.%d:1", i), fmt.Sprintf("http://127.0.1.%d:1/", i))
	}
	p, logs := replicasAt(t, addresses, secret, desk.New())
	var asked atomic.Int64
	begun, end := make(chan struct{}, 1000), make(chan struct{})
	p.transport = transport(func(*http.Request, string) (*http.Response, error) {
		asked.Add(1)
		begun <- struct{}{}
		<-end
		return nil, errors.New("no answer")
	})
	began := time.Now()
	var all sync.WaitGroup
	find := func() error { _, err := p.Find(t.Context(), p.NewID()); return err }
	for range maxAsking {
		all.Go(func() {
			if err := find(); !errors.Is(err, ErrUnknown) {
				t.Error(err)
			}
		})
	}
	for range maxAsking * maxReplicas {
		<-begun
	}
	if err := find(); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("one more: %v", err)
	}
	close(end)
	all.Wait()
	if n := asked.Load(); n != maxAsking*maxReplicas {
		t.Errorf("%d asks", n)
	}
	if n := logs.FilterLevelExact(zap.WarnLevel).Len(); n < maxLines || n > maxLines+int(time.Since(began)/time.Second)+1 {
		t.Errorf("%d log lines", n)
	}
}

// TestALinkTakesNoOthersRoom: whoever has one link, and opens it without end, again and at once, keeps nobody
// from the others.
func TestALinkTakesNoOthersRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := &replica{desk: desk.New()}
		owner.Replicas, _ = replicasAt(t, []string{"http://127.0.0.1:1"}, secret, owner.desk)
		one, other := owner.ticket(t), owner.ticket(t)
		p, _ := replicasAt(t, []string{"http://127.0.0.1:1"}, secret, desk.New())
		answers := transport(func(r *http.Request, _ string) (*http.Response, error) {
			w := httptest.NewRecorder()
			owner.Serve(w, r)
			return w.Result(), nil
		})
		p.transport = answers
		const again = 10_000
		var seen int
		for range again {
			if _, err := p.Find(t.Context(), one.ID()); err == nil {
				seen++
			}
		}
		if seen == 0 || seen == again {
			t.Errorf("answered %d times", seen)
		}
		if q := find(t, p, other.ID()); q.View().State != desk.Waiting {
			t.Errorf("the other link: %+v", q.View())
		}
		time.Sleep(2*maxSkew + 1)
		if q := find(t, p, one.ID()); q.View().State != desk.Waiting {
			t.Errorf("later: %+v", q.View())
		}

		p.transport = transport(func(r *http.Request, to string) (*http.Response, error) {
			b, _ := io.ReadAll(r.Body)
			if strings.Contains(string(b), desk.Digest(one.ID())) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			r.Body = io.NopCloser(bytes.NewReader(b))
			return answers(r, to)
		})
		var all sync.WaitGroup
		for range 2 * maxAsking {
			all.Go(func() {
				if _, err := p.Find(t.Context(), one.ID()); !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if q := find(t, p, other.ID()); q.View().State != desk.Waiting {
			t.Errorf("the other link, meanwhile: %+v", q.View())
		}
		all.Wait()
	})
}

// FuzzAsk: without the secret nothing is answered, and nothing else leaves.
func FuzzAsk(f *testing.F) {
	p, err := New([]string{"http://127.0.0.1:1"}, secret, desk.New(), zap.NewNop())
	if err != nil {
		f.Fatal(err)
	}
	f.Add("POST", "", []byte(`{"nonce":"a","time":1,"ticket":"b"}`))
	f.Add("POST", p.mac("ask", "{}"), []byte(`{}`))
	f.Fuzz(func(t *testing.T, method, mac string, body []byte) {
		r := &http.Request{Method: method, Header: http.Header{header: {mac}}, Body: io.NopCloser(bytes.NewReader(body))}
		w := httptest.NewRecorder()
		if p.Serve(w, r); w.Code != http.StatusForbidden || w.Body.Len() > 0 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		r.Header.Set(header, p.mac("ask", string(body)))
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.Serve(httptest.NewRecorder(), r) // as of a replica of another version
	})
}
