package desk_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestRandomSequences has agents ask, and clients and strangers answer, reply, guess, replay and leave at random,
// also while an answer is under way, while questions expire and upstream accepts, refuses and fails. Against a
// model of what each ticket is, and what is counted: a command runs once, and only if its own client has
// approved it. At last nothing is left. HERMES_APPROVAL_SEQUENCES has another number of them.
func TestRandomSequences(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 500
	}
	if s := os.Getenv("HERMES_APPROVAL_SEQUENCES"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	total := map[string]int{}
	for round := range rounds {
		synctest.Test(t, func(t *testing.T) {
			s := &sequence{t: t, r: rand.New(rand.NewPCG(seed, uint64(round))), d: desk.New(), did: total}
			s.stats.Answered = map[desk.AnswerKind]uint64{}
			s.run(5 + round%60)
		})
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
	t.Log(total)
	for _, what := range []string{
		"asked", "asked again", "read again", "another command", "too many", "ran", "denied", "denied for codes", "guessed", "expired", "forgotten",
		"refused", "answered elsewhere", "too late", "not offered", "during an answer", "ended during an answer", "read again during an answer",
	} {
		if rounds >= 500 && total[what] == 0 {
			t.Errorf("nothing was ever %s", what)
		}
	}
}

// sequence is a round of TestRandomSequences.
type sequence struct {
	t       *testing.T
	r       *rand.Rand
	d       *desk.Desk
	streams []*desk.Tickets // of client i%clients
	tickets []*question
	stats   desk.Stats
	depth   int         // of steps during answers
	said    desk.Result // of upstream, last
	err     error
	did     map[string]int
}

// question is what the model knows of a ticket.
type question struct {
	owner   int
	q       rewrite.ApprovalRequest
	ticket  *desk.Ticket
	until   time.Time
	state   desk.State
	answer  rewrite.ApprovalChoice
	way     desk.Way
	streams map[int]bool // that ask it
	held    bool         // its stream is held for a reply
	left    bool         // its streams have ended
	gone    bool         // upstream waits no more, during an answer
	denied  bool         // for wrong codes
	wrong   int          // codes
	ran     bool
	known   bool
}

func (q *question) isLate() bool   { return !time.Now().Before(q.until) }
func (q *question) hasEnded() bool { return q.state == desk.Answered || q.state == desk.Over }

const clients = 3

func (s *sequence) run(steps int) {
	for i := range 2 * clients {
		owner := i % clients
		s.streams = append(s.streams, s.d.Tickets(desk.Asker{
			Owner: [32]byte{byte(owner)}, By: fmt.Sprint(owner), Timeout: timeout,
			Send: func(ctx context.Context, q rewrite.ApprovalRequest, c rewrite.ApprovalChoice) (desk.Result, error) {
				return s.send(ctx, s.find(owner, q), q, c)
			},
		}))
	}
	for range steps {
		s.step()
		s.check()
	}
	s.sleep(timeout + 24*time.Hour)
	s.check()
	if s.stats.Waiting != 0 || len(s.d.Secrets([32]byte{0})) != 0 {
		s.t.Errorf("something is left: %+v", s.stats)
	}
}

// step has something happen.
func (s *sequence) step() {
	n := s.r.IntN(18)
	if len(s.tickets) == 0 || n < 7 {
		s.ask()
		return
	}
	q := s.tickets[s.r.IntN(len(s.tickets))]
	choice := all[s.r.IntN(len(all))]
	switch n {
	case 7, 8, 9:
		s.press(q, choice)
	case 10, 11:
		s.reply(q, q.owner, all[3*s.r.IntN(2)], q.ticket.Code())
	case 12: // a stranger, or another client
		s.reply(q, q.owner+1, desk.Once, q.ticket.Code())
	case 13:
		for range 1 + s.r.IntN(4) {
			s.reply(nil, q.owner, choice, other(q.ticket.Code()))
		}
	case 14, 15:
		s.done(s.r.IntN(len(s.streams)), q.q.RequestID)
	case 16:
		s.done(s.r.IntN(len(s.streams)), "")
	case 17:
		most := []time.Duration{timeout, timeout, 16 * time.Minute, 25 * time.Hour}[s.r.IntN(4-min(1, s.depth))] // no answer takes a day
		s.sleep(time.Duration(s.r.Int64N(int64(most))))
	}
}

// find returns the question of a ticket that is known.
func (s *sequence) find(owner int, q rewrite.ApprovalRequest) *question {
	for _, o := range s.tickets {
		if o.known && o.owner == owner && o.q.RunID == q.RunID && o.q.RequestID == q.RequestID {
			return o
		}
	}
	return nil
}

func (s *sequence) waitingOf(stream int) (n int) {
	for _, q := range s.tickets {
		if q.streams[stream] {
			n++
		}
	}
	return n
}

// ask asks something new, or the same again.
func (s *sequence) ask() {
	stream := s.r.IntN(len(s.streams))
	q := ask(fmt.Sprint("run", s.r.IntN(2)), s.r.IntN(4))
	q.Choices = slices.Clone(all)
	s.r.Shuffle(len(all), func(i, j int) { q.Choices[i], q.Choices[j] = q.Choices[j], q.Choices[i] })
	q.Choices = append(q.Choices[:s.r.IntN(len(all)+1)], "approve_all")
	if s.r.IntN(8) == 0 {
		q.Command += "; rm -rf other"
	}
	s.asks(stream, q)
}

// asks has a stream ask q.
func (s *sequence) asks(stream int, q rewrite.ApprovalRequest) {
	u := s.find(stream%clients, q)
	isNew := u == nil
	what := "asked"
	switch {
	case !isNew && u.q.Command != q.Command:
		u, what = nil, "another command"
	case !isNew && (u.hasEnded() && (!u.left || u.isLate()) || u.streams[stream]):
		what = "asked again"
	case s.waitingOf(stream) >= 4:
		u, what = nil, "too many"
	case isNew:
		u = &question{owner: stream % clients, until: time.Now().Add(timeout), known: true, streams: map[int]bool{}}
		s.tickets = append(s.tickets, u)
		s.wait(u, q)
		u.streams[stream] = true
	case u.hasEnded():
		what = "read again"
		s.wait(u, q)
		u.streams[stream] = true
	default:
		if u.gone {
			what = "read again during an answer"
		}
		u.gone, u.left = false, false
		u.streams[stream] = true
	}
	s.did[what]++
	got := s.streams[stream].Ask(q)
	switch {
	case u == nil:
		s.stats.Omitted++
		if got != nil {
			s.t.Errorf("%s: it has a ticket", what)
		}
		return
	case u.ticket == nil:
		u.ticket = got
	}
	if got == nil || got != u.ticket {
		s.t.Fatalf("%s: another ticket, or none", what)
	}
	if u.state == desk.Waiting && s.r.IntN(2) == 0 {
		u.held = true
		got.Hold(func(http.ResponseWriter, *http.Request) error { return nil })
	}
}

// wait makes u wait for an answer to q.
func (s *sequence) wait(u *question, q rewrite.ApprovalRequest) {
	u.q, u.state, u.left, u.gone = q, desk.Waiting, false, false
	u.q.Choices = nil
	for _, c := range all {
		if c == desk.Deny || slices.Contains(q.Choices, c) {
			u.q.Choices = append(u.q.Choices, c)
		}
	}
	s.stats.Asked++
	s.stats.Waiting++
}

// end ends u.
func (s *sequence) end(u *question, as desk.State) {
	u.state = as
	clear(u.streams)
	s.stats.Waiting--
}

// done ends a request of a stream, or with "" all of it.
func (s *sequence) done(stream int, request string) {
	for _, u := range s.tickets {
		switch {
		case !u.streams[stream] || request != "" && u.q.RequestID != request:
		case request == "" && len(u.streams) > 1:
			delete(u.streams, stream)
		case u.state == desk.Sending:
			u.gone, u.left = true, request == ""
			clear(u.streams)
			s.did["ended during an answer"]++
		default:
			s.stats.Ended++
			s.end(u, desk.Over)
			u.left = request == ""
		}
	}
	s.streams[stream].Done(request)
}

// sleep has time pass.
func (s *sequence) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	for _, u := range s.tickets {
		if u.state == desk.Waiting && u.isLate() {
			s.stats.Expired++
			s.end(u, desk.Over)
			s.did["expired"]++
		}
		u.held = u.held && time.Since(u.until) < 15*time.Minute
		if u.known && time.Since(u.until) >= 24*time.Hour {
			u.known = false
			s.did["forgotten"]++
		}
	}
}

// take returns what an answer to u is, which is sent if it is Accepted.
func (s *sequence) take(u *question, c rewrite.ApprovalChoice, way desk.Way) (desk.Result, error) {
	switch {
	case u.state == desk.Sending, u.state == desk.Answered:
		return desk.AlreadyAnswered, nil
	case u.state == desk.Over:
		return desk.TooLate, nil
	case !slices.Contains(u.q.Choices, c):
		s.did["not offered"]++
		return desk.Refused, desk.ErrNotOffered
	}
	u.state, u.answer, u.way = desk.Sending, c, way
	return desk.Accepted, nil
}

// leftClient is the context of a client that has left, which ends no answer.
func (s *sequence) leftClient() context.Context {
	ctx, leave := context.WithCancel(s.t.Context())
	leave()
	return ctx
}

// wantResult compares the result of an answer with what the model says before it, or upstream during it.
func (s *sequence) wantResult(what string, got desk.Result, err error, want desk.Result, wantErr error) {
	s.t.Helper()
	if want == desk.Accepted {
		want, wantErr = s.said, s.err
	}
	if got != want || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		s.t.Errorf("%s: %d, %v, not %d, %v", what, got, err, want, wantErr)
	}
}

// press answers by the page.
func (s *sequence) press(u *question, c rewrite.ApprovalChoice) {
	want, wantErr := s.take(u, c, desk.Page)
	got, err := desk.Refused, error(nil)
	func() {
		defer func() {
			if v := recover(); v != nil {
				err = v.(error)
			}
		}()
		got, err = u.ticket.Answer(s.leftClient(), c, desk.Page)
	}()
	s.wantResult("pressed "+string(c), got, err, want, wantErr)
}

// reply has a client send a code, that of u or a wrong one.
func (s *sequence) reply(u *question, owner int, c rewrite.ApprovalChoice, code string) {
	if u != nil && (u.owner != owner || !u.held) {
		u = nil
	}
	want, wantErr := desk.Refused, error(nil)
	if u != nil {
		want, wantErr = s.take(u, c, desk.Reply)
	} else {
		s.guess(owner)
	}
	r := s.d.Reply(s.leftClient(), [32]byte{byte(owner)}, c, code)
	if u == nil {
		if r.Ticket != nil {
			s.t.Errorf("client %d: the code is taken", owner)
		}
		return
	}
	if r.Ticket != u.ticket {
		s.t.Fatalf("client %d: the code is not taken", owner)
	}
	s.wantResult("replied "+string(c), r.Result, r.Err, want, wantErr)
}

// guess counts a wrong code of a client.
func (s *sequence) guess(owner int) {
	for _, u := range s.tickets {
		if u.owner != owner || !u.held || u.state != desk.Waiting {
			continue
		}
		s.did["guessed"]++
		if u.wrong++; u.wrong >= 5 {
			u.denied = true
			_, _ = s.take(u, desk.Deny, desk.Reply)
			s.did["denied for codes"]++
		}
	}
}

// errPanic is the value of a panic.
var errPanic = errors.New("reverse proxy")

// send is Asker.Send. What upstream returns with an error counts for nothing.
func (s *sequence) send(ctx context.Context, u *question, q rewrite.ApprovalRequest, c rewrite.ApprovalChoice) (desk.Result, error) {
	if u == nil || u.state != desk.Sending || u.answer != c || u.q.Command != q.Command {
		s.t.Fatalf("%s is sent to %+v", c, u)
	}
	if until, ok := ctx.Deadline(); !ok || time.Until(until) != 30*time.Second || ctx.Err() != nil {
		s.t.Errorf("its context ends at %v: %v", until, ctx.Err())
	}
	if s.depth < 2 && s.r.IntN(2) == 0 {
		s.did["during an answer"]++
		s.depth++
		switch s.r.IntN(3) {
		case 0:
			for stream := range maps.Clone(u.streams) {
				s.done(stream, []string{"", u.q.RequestID}[s.r.IntN(2)])
			}
			if s.r.IntN(2) == 0 {
				s.asks(u.owner+clients*s.r.IntN(2), u.q)
			}
		case 1:
			s.sleep(time.Duration(s.r.Int64N(int64(2 * timeout))))
		default:
			s.step()
		}
		s.check()
		s.depth--
	}
	result, err := desk.Result(s.r.IntN(4)), error(nil)
	panics := false
	switch s.r.IntN(8) {
	case 0:
		err = errAway
	case 1:
		err, panics = errPanic, u.way == desk.Page // a reply may send several
	case 2, 3, 4, 5:
		result = desk.Accepted
	}
	s.said, s.err = result, err
	if err != nil {
		s.said = desk.Refused
	}
	s.settle(u, s.said)
	if panics {
		panic(err)
	}
	return result, err
}

// settle notes what upstream has said to the answer of u.
func (s *sequence) settle(u *question, result desk.Result) {
	c := u.answer
	if result != desk.Accepted {
		u.answer = ""
	}
	u.left = u.left && result == desk.Refused && !u.denied
	switch {
	case result == desk.Accepted:
		if c != desk.Deny && u.ran {
			s.t.Errorf("%s runs again", u.q.RequestID)
		}
		u.ran = u.ran || c != desk.Deny
		s.stats.Answered[desk.AnswerKind{Choice: c, Way: u.way}]++
		s.end(u, desk.Answered)
		s.did[map[bool]string{true: "denied", false: "ran"}[c == desk.Deny]]++
	case result == desk.AlreadyAnswered:
		s.stats.Ended++
		s.end(u, desk.Answered)
		s.did["answered elsewhere"]++
	case result == desk.TooLate, u.gone, u.denied:
		s.stats.Ended++
		s.end(u, desk.Over)
		s.did["too late"]++
	case u.isLate():
		s.stats.Expired++
		s.end(u, desk.Over)
	default:
		u.state = desk.Waiting
		s.did["refused"]++
	}
}

// check compares all with the model.
func (s *sequence) check() {
	s.t.Helper()
	secrets := make([]map[string]bool, clients)
	for _, u := range s.tickets {
		if found, ok := s.d.Find(u.ticket.ID()); ok != u.known || ok && found != u.ticket {
			s.t.Errorf("%s is known: %v", u.q.RequestID, ok)
		}
		v := u.ticket.View()
		want := desk.View{State: u.state, Answer: u.answer, Request: u.q, By: fmt.Sprint(u.owner), Until: u.until, Held: u.held}
		if u.hasEnded() {
			want.Request = rewrite.ApprovalRequest{RunID: u.q.RunID, RequestID: u.q.RequestID}
		}
		if !reflect.DeepEqual(v, want) || u.ticket.Rest(nil, nil) == nil != u.held {
			s.t.Errorf("the ticket is %+v, not %+v", v, want)
		}
		if !u.known {
			continue
		}
		if secrets[u.owner] == nil {
			secrets[u.owner] = map[string]bool{}
		}
		secrets[u.owner][u.ticket.ID()] = false
		if u.held {
			secrets[u.owner][u.ticket.Code()] = u.state == desk.Waiting
		}
	}
	for owner, want := range secrets {
		if got := s.d.Secrets([32]byte{byte(owner)}); !maps.Equal(got, want) || (got == nil) != (want == nil) {
			s.t.Errorf("the secrets of client %d are %v, not %v", owner, got, want)
		}
	}
	for i, stream := range s.streams {
		if got, want := stream.Waiting(), s.waitingOf(i); got != want {
			s.t.Errorf("%d wait in stream %d, not %d", got, i, want)
		}
	}
	if got := s.d.Stats(); !reflect.DeepEqual(got, s.stats) {
		s.t.Errorf("counted are %+v, not %+v", got, s.stats)
	}
	checkSum(s.t, s.stats)
	if s.t.Failed() {
		s.t.FailNow()
	}
}
