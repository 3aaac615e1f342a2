package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// A view is the state of a log in Redis at some time.
type view struct {
	state  resume.State
	header http.Header // nil before it has begun
	events uint64
	bytes  int64
	lease  time.Duration // the rest of it
	gone   bool          // it was deleted, or has been kept long enough
	entry  resume.Entry
	last   string // the id of its last piece
	asked  string // the id of the last message that its owner has got
	has    uint64 // how many events the owner had then
}

// errDamaged means that Redis has no log where one should be.
var errDamaged = errors.New("a log in redis is damaged: use a prefix that no other program uses")

// look returns the state of a log, nil if there is none.
func (s *Store) look(ctx context.Context, id string) (*view, error) {
	reply, err := s.do(ctx, lookScript, []string{s.names.log(id), s.names.events(id)})
	if errors.Is(err, goredis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a log in redis: %w", err)
	}
	f, _ := reply.([]any)
	if len(f) != 11 {
		return nil, fmt.Errorf("%w: it has %d fields, want 11", errDamaged, len(f))
	}
	str := func(i int) string { v, _ := f[i].(string); return v }
	num := func(i int) int64 { v, _ := f[i].(int64); return v }
	v := &view{
		state: resume.State(slices.Index(states[:resume.Dropped], str(0))), events: uint64(num(2)), bytes: num(3),
		lease: time.Duration(num(4)) * time.Millisecond, gone: num(5) == 1, last: str(8), asked: str(9), has: uint64(num(10)),
	}
	if err := json.Unmarshal([]byte(str(7)), &v.entry); err != nil {
		return nil, fmt.Errorf("%w: decoding its entry: %w", errDamaged, err)
	}
	if v.entry.ID != id || v.bytes < 0 || v.state >= resume.Dropped {
		return nil, fmt.Errorf("%w: it has the id %.40q, %d bytes and the state %.40q", errDamaged, v.entry.ID, v.bytes, str(0))
	}
	if v.state == resume.Claimed {
		return v, nil
	}
	if err := json.Unmarshal([]byte(str(1)), &v.header); err != nil || v.header == nil { // null is none
		return nil, fmt.Errorf("%w: it has no header: %.100q", errDamaged, str(1))
	}
	return v, nil
}
