package redis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// TestRights has a user with the rights that docs/resume-redis.md gives do all that stores do: it is
// refused nothing, and needs all of them.
func TestRights(t *testing.T) {
	server := startServer(t)
	password, rights := userOfPage(t, "hermes")
	server.allow("hermes", password, rights)
	server.keepsTheContract(t)
	t.Run("the death of a replica", func(t *testing.T) {
		dying, heir := server.replicas()
		l := begun(t, dying, entry("a"), newRun())
		add(t, l, chunk)
		r := follow(t, heir, l.ID)
		read(t, r, len(chunk))
		die(t, dying)
		server.lapse(dying)
		if finish, err := all(r); !strings.Contains(finish, "[DONE]") {
			t.Errorf("%q, %v", finish, err)
		}
	})
	server.refusesNothing()
	t.Run("other keys", func(t *testing.T) {
		s, logs := server.replica(func(o *Options) { o.Prefix = "test:" })
		if _, _, err := s.Claim(context.Background(), entry("a"), newRun().callbacks()); err == nil {
			t.Error("it may use them")
		}
		if logs.Len() == 0 || strings.Contains(fmt.Sprint(logs.All()), password) {
			t.Errorf("it logs %v", logs.All())
		}
		s.Destruct()
		<-s.over
	})

	stats, err := server.client.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, used := range regexp.MustCompile(`cmdstat_([a-z|]+):calls=\d+.*?rejected_calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
		switch name := used[1]; {
		case slices.Contains([]string{"acl|setuser", "acl|log", "ping", "info", "hello", "auth"}, name): // the test's, or in need of no right
		case !slices.Contains(rights, "+"+name):
			t.Errorf("%s is used", name)
		}
	}
	for _, right := range rights {
		if name, ok := strings.CutPrefix(right, "+"); ok && !strings.Contains(stats, "cmdstat_"+name+":") {
			t.Errorf("%s is not used", name)
		}
	}
}

// TestNothingStaysForEver looks at every key, whatever becomes of a log: it stays for keep and a
// minute after the end of that, and for two leases more if no replica ends it.
func TestNothingStaysForEver(t *testing.T) {
	server := startServer(t)
	here, there := server.replicas()
	dying, _ := server.replica(nil)
	ctx := context.Background()

	claimed := claim(t, here, entry("claimed"), newRun())
	follow(t, there, claimed.ID)
	for _, key := range []string{"begun", "whole", "broken", "cancelled", "over"} {
		l := begun(t, here, entry(key), newRun())
		add(t, l, event(1))
		read(t, follow(t, there, l.ID), len(event(1)))
		switch key {
		case "whole", "over":
			l.End(log.Whole)
		case "broken":
			l.End(log.Broken)
		}
		if key == "cancelled" || key == "over" {
			remove(t, there, l.ID)
		}
	}
	claim(t, here, entry("dropped"), newRun()).End(log.Dropped)
	left := begun(t, dying, entry("left"), newRun())
	r := follow(t, there, left.ID)
	die(t, dying)
	server.lapse(dying)
	_, _ = all(r)

	keys := server.keys()
	if len(keys) < 20 {
		t.Fatal(keys)
	}
	const afterEnd = time.Hour + time.Minute
	for _, key := range keys {
		most := afterEnd + 2*patience
		v, err := here.look(ctx, key[strings.LastIndexByte(key, ':')+1:], "")
		if err != nil && !errors.Is(err, log.ErrDropped) {
			t.Fatal(err)
		}
		ended := v != nil && v.state > log.Begun
		switch {
		case ended && strings.HasPrefix(key, "test:readers:"):
			t.Errorf("%s is of no use", key)
		case ended:
			most = afterEnd
		}
		if ttl, err := server.client.PTTL(ctx, key).Result(); err != nil || ttl <= 0 || ttl > most {
			t.Errorf("%s stays for %v, want at most %v, %v", key, ttl, most, err)
		}
		if !strings.HasPrefix(key, "test:") {
			t.Errorf("%s has not the prefix", key)
		}
	}
}
