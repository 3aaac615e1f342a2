package redis

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRights has a user with the rights that docs/resume.md gives do all that stores do: it is
// refused nothing, and needs all of them.
func TestRights(t *testing.T) {
	page, err := os.ReadFile("../../docs/resume.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^    user (hermes on >(\S+) .*)$`).FindStringSubmatch(string(page))
	if line == nil {
		t.Fatal("docs/resume.md has no line of a user")
	}
	server := startServer(t)
	rights := strings.Fields(line[1])
	command := []any{"ACL", "SETUSER"}
	for _, word := range rights {
		command = append(command, word)
	}
	server.do(command...)
	prefixes := 0
	replicas := func(t *testing.T, set func(*Options)) (a, b *Store) {
		prefixes++
		as := func(o *Options) {
			o.Username, o.Password, o.Prefix = "hermes", line[2], fmt.Sprintf("hermes:%d:", prefixes)
		}
		a, _ = server.replica(func(o *Options) { as(o); set(o) })
		b, _ = server.replica(as)
		return a, b
	}
	for what, test := range contract {
		t.Run(what, func(t *testing.T) {
			a, b := replicas(t, func(*Options) {})
			test(t, pair{a, b})
		})
	}
	t.Run("the death of a replica", func(t *testing.T) {
		dying, heir := replicas(t, mortal)
		l := claim(t, dying, entry("a"), newRun())
		begin(t, l)
		add(t, l, chunk)
		r := follow(t, heir, l.ID)
		read(t, r, len(chunk))
		die(dying)
		if finish, err := all(r); !strings.Contains(finish, "[DONE]") {
			t.Errorf("%q, %v", finish, err)
		}
	})
	if refused, err := server.client.Do(context.Background(), "ACL", "LOG").Slice(); err != nil || len(refused) > 0 {
		t.Errorf("it is refused %v, %v", refused, err)
	}
	t.Run("other keys", func(t *testing.T) {
		s, logs := server.replica(func(o *Options) { o.Username, o.Password = "hermes", line[2] })
		if _, _, err := s.Claim(context.Background(), entry("a"), newRun().callbacks()); err == nil {
			t.Error("it may use them")
		}
		if logs.Len() == 0 || strings.Contains(fmt.Sprint(logs.All()), line[2]) {
			t.Errorf("what is logged is %v", logs.All())
		}
		s.Close()
		<-s.over
	})

	stats, err := server.client.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, used := range regexp.MustCompile(`cmdstat_([a-z|]+):calls=\d+.*?rejected_calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
		switch name := used[1]; {
		case slices.Contains([]string{"acl|setuser", "acl|log", "ping", "info", "hello", "auth"}, name): // the test's, or of nobody's right
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
