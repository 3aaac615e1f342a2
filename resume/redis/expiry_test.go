package redis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// TestNothingStaysForEver looks at every key, whatever becomes of a log: it stays for keep and a
// minute after the end of that, and for two leases more if nobody ends it.
func TestNothingStaysForEver(t *testing.T) {
	server := startServer(t)
	here, _ := server.replica(nil)
	there, _ := server.replica(nil)
	dying, _ := server.replica(mortal)
	ctx := context.Background()

	claimed := claim(t, here, entry("claimed"), newRun())
	follow(t, there, claimed.ID)
	for _, key := range []string{"begun", "whole", "broken", "cancelled", "over"} {
		l := claim(t, here, entry(key), newRun())
		begin(t, l)
		add(t, l, event(1))
		read(t, follow(t, there, l.ID), len(event(1)))
		switch key {
		case "whole", "over":
			l.End(resume.Whole)
		case "broken":
			l.End(resume.Broken)
		}
		if key == "cancelled" || key == "over" {
			remove(t, there, l.ID)
		}
	}
	claim(t, here, entry("dropped"), newRun()).End(resume.Dropped)
	left := claim(t, dying, entry("left"), newRun())
	begin(t, left)
	r := follow(t, there, left.ID)
	die(dying)
	_, _ = all(r)

	keys := server.keys()
	if len(keys) < 20 {
		t.Fatal(keys)
	}
	const behindEnd = time.Hour + time.Minute
	for _, key := range keys {
		most := behindEnd + 2*patience
		v, err := here.look(ctx, key[strings.LastIndexByte(key, ':')+1:], "")
		if err != nil && !errors.Is(err, resume.ErrDropped) {
			t.Fatal(err)
		}
		ended := v != nil && v.state > resume.Begun
		switch {
		case ended && strings.HasPrefix(key, "test:readers:"):
			t.Errorf("%s is of no use", key)
		case ended:
			most = behindEnd
		}
		if ttl, err := server.client.PTTL(ctx, key).Result(); err != nil || ttl <= 0 || ttl > most {
			t.Errorf("%s stays for %v, want at most %v, %v", key, ttl, most, err)
		}
		if !strings.HasPrefix(key, "test:") {
			t.Errorf("%s has not the prefix", key)
		}
	}
}
