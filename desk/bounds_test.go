package desk_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestTicketsAreBounded: four that wait of a stream, 20 of a client. Those that have ended do
// not count, and the same question again is no further one.
func TestTicketsAreBounded(t *testing.T) {
	var h hermes
	d := desk.New()
	var streams []*desk.Tickets
	var last *desk.Ticket
	for i := range 5 {
		s := d.Tickets(h.asker(1))
		streams = append(streams, s)
		for n := range 4 {
			if last = s.Ask(ask(fmt.Sprint("run", i), n)); last == nil {
				t.Fatalf("no ticket %d of stream %d", n, i)
			}
		}
		if s.Ask(ask(fmt.Sprint("run", i), 4)) != nil || s.Waiting() != 4 {
			t.Error("a stream has a fifth")
		}
	}
	sixth := d.Tickets(h.asker(1))
	if sixth.Ask(ask("run5", 1)) != nil {
		t.Error("a client has a 21st")
	}
	if sixth.Ask(ask("run4", 3)) != last || streams[4].Ask(ask("run4", 3)) != last {
		t.Error("what is asked again counts")
	}
	if d.Tickets(h.asker(2)).Ask(ask("run5", 1)) == nil {
		t.Error("another client has none")
	}
	if s := d.Stats(); s.Waiting != 21 || s.Omitted != 6 {
		t.Errorf("%+v", s)
	}
	wantAnswer(t, last, desk.Deny, desk.Accepted)
	if streams[4].Ask(ask("run4", 4)) == nil {
		t.Error("no room after an answer")
	}
	streams[0].Done("")
	for n := range 4 {
		if sixth.Ask(ask("run5", n)) == nil {
			t.Error("no room after the end of a stream")
		}
	}
	if streams[0].Ask(ask("run0", 1)) != nil {
		t.Error("what waits again does not count")
	}
}

// TestAThousandTickets: then those that have ended go, the oldest end first, and if none has,
// there is no more.
func TestAThousandTickets(t *testing.T) {
	var h hermes
	d := desk.New()
	s := d.Tickets(h.asker(0))
	first, second := s.Ask(ask("run", 1)), s.Ask(ask("run", 2))
	wantAnswer(t, second, desk.Deny, desk.Accepted)
	wantAnswer(t, first, desk.Deny, desk.Accepted)
	var asked []*desk.Ticket
	more := func(n int) (got int) {
		for range n {
			a := h.asker(1)
			a.Owner[1], a.Owner[2] = byte(len(asked)), byte(len(asked)>>8)
			ticket := d.Tickets(a).Ask(ask("run", 1))
			if ticket == nil {
				return got
			}
			asked = append(asked, ticket)
			got++
		}
		return got
	}
	known := func(ticket *desk.Ticket) bool { _, ok := d.Find(ticket.ID()); return ok }
	s.Done("")
	third := s.Ask(ask("run", 3))
	s.Done("")
	if s.Ask(ask("run", 3)) != third { // it waits again, and stays
		t.Error("another ticket")
	}
	if n := more(997); n != 997 || !known(first) || !known(second) {
		t.Errorf("%d beside the two that have ended", n)
	}
	if n := more(1); n != 1 || !known(first) || known(second) {
		t.Errorf("%d, and the oldest end is still there", n)
	}
	if n := more(2); n != 1 || known(first) {
		t.Errorf("%d in the place of the last that has ended", n)
	}
	for _, ticket := range asked {
		if !known(ticket) {
			t.Fatal("one that waits has gone")
		}
	}
	if !known(third) {
		t.Error("one that waits again has gone")
	}
	if s.Ask(ask("run", 1)) != nil { // it is forgotten, so it would be a new one
		t.Error("there are 1001")
	}
}

// TestQuestionsWithoutIdsHaveNoTicket: an answer could be taken for another question.
func TestQuestionsWithoutIdsHaveNoTicket(t *testing.T) {
	var h hermes
	d := desk.New()
	s := d.Tickets(h.asker(1))
	long := strings.Repeat("x", 257)
	for _, ids := range [][2]string{{"", "request"}, {"run", ""}, {long, "request"}, {"run", long}} {
		if s.Ask(rewrite.ApprovalRequest{RunID: ids[0], RequestID: ids[1], Choices: all}) != nil {
			t.Errorf("a ticket for %.10q", ids)
		}
	}
	if s.Ask(rewrite.ApprovalRequest{RunID: long[1:], RequestID: long[1:], Choices: all}) == nil {
		t.Error("no ticket for ids of 256 bytes")
	}
	if n := d.Stats().Omitted; n != 4 {
		t.Errorf("%d are counted", n)
	}
}

// TestLongCommandsCanOnlyBeDenied, those of more than 64 KiB.
func TestLongCommandsCanOnlyBeDenied(t *testing.T) {
	var h hermes
	s := desk.New().Tickets(h.asker(1))
	for n, long := range map[int]bool{64 << 10: false, 64<<10 + 1: true} {
		q := ask("run", n)
		q.Command, q.Description, q.Tool = strings.Repeat("c", n), strings.Repeat("d", n), strings.Repeat("t", n)
		ticket := s.Ask(q)
		v := ticket.View()
		if v.TooLong != long || len(v.Request.Command) != 64<<10 || len(v.Request.Description) != 4<<10 || len(v.Request.Tool) != 256 {
			t.Errorf("%d bytes: too long %v, %d, %d and %d are kept", n, v.TooLong, len(v.Request.Command), len(v.Request.Description), len(v.Request.Tool))
		}
		if !long {
			continue
		}
		for _, c := range []rewrite.ApprovalChoice{desk.Once, desk.Session, desk.Always} {
			if result, err := ticket.Answer(t.Context(), c, desk.Page); result != desk.Refused || err != desk.ErrNotOffered || h.asked != 0 {
				t.Errorf("%s: %d, %v", c, result, err)
			}
		}
		wantAnswer(t, ticket, desk.Deny, desk.Accepted)
	}
}

// TestCommandsThatCannotBeShown can only be denied: nobody would know what runs.
func TestCommandsThatCannotBeShown(t *testing.T) {
	var h hermes
	s := desk.New().Tickets(h.asker(1))
	for n, command := range []string{"", " ", "\n\t\u00a0\u2003"} {
		q := ask("run", n)
		q.Command = command
		ticket := s.Ask(q)
		if got := ticket.View().Request.Choices; !slices.Equal(got, []rewrite.ApprovalChoice{desk.Deny}) {
			t.Errorf("%q: offered %q", command, got)
		}
		if result, err := ticket.Answer(t.Context(), desk.Once, desk.Page); result != desk.Refused || err != desk.ErrNotOffered || h.asked != n {
			t.Errorf("%q: %d, %v", command, result, err)
		}
		wantAnswer(t, ticket, desk.Deny, desk.Accepted)
	}
}

// TestMemoryOfTickets: a thousand with the longest commands take 68 MiB and a little; what
// has ended takes 2 KiB, and what is forgotten the places in three maps. A ticket holds no
// frame of its stream.
func TestMemoryOfTickets(t *testing.T) {
	alone.NotUnderRace(t)
	if alone.Elsewhere(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		var h hermes
		d := desk.New()
		before := heap()
		var streams []*desk.Tickets
		for i := range 1000 {
			a := h.asker(1)
			a.Owner[1], a.Owner[2] = byte(i), byte(i>>8)
			body := make([]byte, 16<<10) // of the request that Send remembers
			a.Send = func(context.Context, rewrite.ApprovalRequest, rewrite.ApprovalChoice) (desk.Result, error) {
				return desk.Result(len(body)), nil
			}
			s := d.Tickets(a)
			frame := strings.Repeat("x", 1<<20)
			q := ask("run", 1)
			q.Command, q.Description = frame, frame
			if s.Ask(q) == nil {
				t.Fatal("no ticket")
			}
			streams = append(streams, s)
		}
		if took := heap() - before; took > (72+16)<<20 {
			t.Errorf("they take %d bytes", took)
		}
		for _, s := range streams {
			s.Done("")
		}
		streams = nil
		if took := heap() - before; took > 2<<20 {
			t.Errorf("ended, they take %d bytes", took)
		}
		time.Sleep(timeout + 24*time.Hour)
		synctest.Wait()
		if took := heap() - before; took > 1<<20 {
			t.Errorf("forgotten, they take %d bytes", took)
		}
		for i := range 60000 {
			a := h.asker(2)
			a.Owner[1], a.Owner[2] = byte(i), byte(i>>8)
			s := d.Tickets(a)
			s.Ask(ask("run", 1))
			s.Done("")
		}
		time.Sleep(timeout + 24*time.Hour)
		synctest.Wait()
		if took := heap() - before; took > 4<<20 {
			t.Errorf("after 60000 clients, they take %d bytes", took)
		}
		runtime.KeepAlive(d)
	})
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
