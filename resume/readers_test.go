package resume_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// TestAHundredReadersOfOneLog come while it grows, and each gets all of it.
func TestAHundredReadersOfOneLog(t *testing.T) {
	const n, most = 300, 100
	each := make(chan struct{})
	l := newLab(t, nil, streams(events(n), each))
	go func() { each <- struct{}{} }()
	first := l.send(post(key, "k"))
	id := first.id()
	first.next()
	want := numbered(id, 1, events(n)...)
	var readers sync.WaitGroup
	for range most {
		readers.Go(func() {
			r, err := l.try(post(key, "k"))
			if err != nil {
				t.Error(err)
				return
			}
			if b, err := io.ReadAll(r.in); string(b) != want || err != nil {
				t.Errorf("a reader got %d bytes of %d, %v", len(b), len(want), err)
			}
		})
		each <- struct{}{}
	}
	until(t, "all read", func() bool { return l.runs.Stats().Readers == most+1 })
	close(each)
	readers.Wait()
	if got := numbered(id, 1, event(1)) + first.rest(); got != want {
		t.Error("the first got something else")
	}
	l.wantAsked(1)
	until(t, "nobody reads", func() bool { return l.runs.Stats().Readers == 0 })
	if st := l.runs.Stats(); st.TotalBegun != 1 || st.TotalReplayed != most || st.TotalContinued != 0 {
		t.Errorf("stats %+v", st)
	}
}

// TestSlowReaderHoldsNobodyUp has a client that does not read at all. Others go on, and
// once what it needs has gone, it is cut off.
func TestSlowReaderHoldsNobodyUp(t *testing.T) {
	const size, n = 64 << 10, 400 // more than a connection holds
	big := "data: " + strings.Repeat("x", size) + "\n\n"
	each := make(chan struct{})
	all := make([]string, n)
	for i := range all {
		all[i] = big
	}
	l := newLab(t, func(o *resume.Options) { o.MaxStream = 1 << 20 }, streams(all, each))
	conn, err := net.Dial("tcp", l.srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\n%s: k\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		otherPath, l.srv.Listener.Addr(), key, len(asking), asking)
	slow := bufio.NewReader(conn)
	each <- struct{}{}
	res, err := http.ReadResponse(slow, nil)
	if err != nil {
		t.Fatal(err)
	}
	second := l.send(post(key, "k")).want(http.StatusOK)
	second.next()
	for range n - 1 {
		each <- struct{}{}
		second.next() // however far the first is behind
	}
	if got := second.rest(); got != "" {
		t.Errorf("behind the end: %d bytes", len(got))
	}
	if b, err := io.ReadAll(res.Body); err == nil || len(b) >= n*size {
		t.Errorf("the slow one got %d bytes, %v", len(b), err)
	}
	if used, _ := l.store.Used(); used > 1<<20+64<<10 {
		t.Errorf("%d bytes are kept", used)
	}
	p := problemOf(t, l.send(post(key, "k")), http.StatusGone)
	begin := int(p["first"].(float64))
	if begin < n-20 || begin > n {
		t.Fatalf("the first that is there is %d", begin)
	}
	at := func(n int) string { return fmt.Sprintf("%s/%d", second.id(), n) }
	problemOf(t, l.send(post("Last-Event-ID", at(begin-2))), http.StatusGone)
	if got := l.send(post("Last-Event-ID", at(begin-1))).want(http.StatusOK).rest(); got != numbered(second.id(), begin, all[begin-1:]...) {
		t.Errorf("the rest has %d bytes", len(got))
	}
	l.wantAsked(1)
}

// TestNothingIsLeft has clients leave, or stay to the end. The bubble checks that all
// goroutines have ended.
func TestNothingIsLeft(t *testing.T) {
	inBubble(t, nil, streams(events(3), always()), func(t *testing.T, l *lab) {
		for i := range 50 {
			r := l.send(post(key, fmt.Sprint(i)))
			if i%2 == 0 {
				r.rest()
			}
			r.leave()
		}
		for range 50 {
			l.over()
		}
		synctest.Wait()
		if n := l.runs.Stats().Readers; n != 0 {
			t.Errorf("%d readers", n)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if used, logs := l.store.Used(); used != 0 || logs != 0 {
			t.Errorf("%d bytes of %d logs are left", used, logs)
		}
	})
}
