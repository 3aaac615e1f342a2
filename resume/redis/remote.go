package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/resume"
)

// remoteLog is a log in Redis that no run in this process writes.
type remoteLog struct {
	s     *Store
	entry resume.Entry
}

// errNotOurs is what those get who write to a log that another process writes.
var errNotOurs = errors.New("the log belongs to another replica")

// Entry implements resume.Log.
func (l *remoteLog) Entry() resume.Entry { return l.entry }

// Begin implements resume.Log.
func (l *remoteLog) Begin(http.Header) error { return errNotOurs }

// MakeRoom implements resume.Log. Nothing is appended.
func (l *remoteLog) MakeRoom(context.Context, func() bool) int { return 0 }

// Append implements resume.Log.
func (l *remoteLog) Append([]byte, []int) error { return errNotOurs }

// End implements resume.Log. Its owner ends it.
func (l *remoteLog) End(bool) {}

// Drop implements resume.Log. Its owner drops it.
func (l *remoteLog) Drop() {}

// Readers implements resume.Log. Its owner knows.
func (l *remoteLog) Readers() int { return 0 }

// Events implements resume.Log.
func (l *remoteLog) Events() uint64 {
	v, err := l.s.look(context.Background(), l.entry.ID)
	if err != nil || v == nil {
		return 0
	}
	return v.events
}

// Each implements resume.Log.
func (l *remoteLog) Each(f func(p []byte)) error {
	return l.s.each(l.entry.ID, func(p piece) { f([]byte(p.data)) })
}

// Cancel implements resume.Log.
func (l *remoteLog) Cancel(ctx context.Context) error {
	v, err := l.s.do(ctx, cancelScript, l.s.names.cancel(l.entry), l.s.o.Prefix, l.entry.ID)
	if err == nil && v != int64(1) {
		err = resume.ErrDropped
	}
	return err
}

// Follow implements resume.Log.
func (l *remoteLog) Follow(ctx context.Context) (resume.Reader, error) { return l.follow(ctx), nil }

// A piece is an entry of the stream of a log.
type piece struct {
	id     string
	at     int64  // the index of its first byte in the log
	before uint64 // the number of the last event before it
	torn   bool   // its first byte does not follow the end of an event
	gap    uint64 // how many numbers before it are nobody's
	ends   []byte // as Uvarints, each from the one before
	data   string // "" if it only says that the state is another
}

func newPiece(m goredis.XMessage) (p piece) {
	p.id = m.ID
	p.data, _ = m.Values["d"].(string)
	ends, _ := m.Values["e"].(string)
	p.ends = []byte(ends)
	where, _ := m.Values["m"].(string)
	var torn int
	if p.data != "" {
		_, _ = fmt.Sscanf(where, "%d %d %d %d", &p.at, &p.before, &torn, &p.gap) // ours
	}
	p.torn = torn == 1
	return p
}

// end returns the index in the log behind its last byte.
func (p *piece) end() int64 { return p.at + int64(len(p.data)) }

// events returns how many events end in it.
func (p *piece) events() (n uint64) {
	for b := p.ends; len(b) > 0; n++ {
		_, size := binary.Uvarint(b)
		if size <= 0 {
			break
		}
		b = b[size:]
	}
	return n
}

// behind returns the index in it behind the nth event that ends in it.
func (p *piece) behind(n uint64) (at int) {
	for b := p.ends; n > 0 && len(b) > 0; n-- {
		d, size := binary.Uvarint(b)
		if size <= 0 {
			break
		}
		at += int(d)
		b = b[size:]
	}
	return at
}

// endsWhole reports whether its last byte is the end of an event.
func (p *piece) endsWhole() bool {
	n := p.events()
	return n > 0 && p.behind(n) == len(p.data)
}

// first returns the number of the first event that is whole in a log that begins with it.
func (p *piece) first() uint64 {
	if p.torn {
		return p.before + 2
	}
	return p.before + 1
}

// before returns an id that is between those of a piece and of the one before it.
func beforePiece(id string) string {
	var events, n uint64
	if _, err := fmt.Sscanf(id, "%d-%d", &events, &n); err != nil || n == 0 {
		return "0-0"
	}
	return pieceID(events, n-1)
}

// read returns pieces of a log behind the one with the id.
func (s *Store) read(id, behind string, n int64) ([]piece, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	entries, err := s.client.XRangeN(ctx, s.names.events(id), "("+behind, "+", n).Result()
	if err != nil {
		s.failed(err)
		return nil, fmt.Errorf("reading a log in redis: %w", err)
	}
	pieces := make([]piece, len(entries))
	for i, m := range entries {
		pieces[i] = newPiece(m)
	}
	return pieces, nil
}

// each calls f with each piece of a log that has bytes.
func (s *Store) each(id string, f func(piece)) error {
	for last := "0-0"; ; {
		pieces, err := s.read(id, last, maxEntries)
		if err != nil || len(pieces) == 0 {
			return err
		}
		for _, p := range pieces {
			last = p.id
			if p.data != "" {
				f(p)
			}
		}
	}
}

// Interface guards
var _ resume.Log = (*remoteLog)(nil)
