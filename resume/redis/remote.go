package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// remoteLog is a log in Redis that no run in this process writes.
type remoteLog struct {
	s     *Store
	entry resume.Entry
}

// Entry implements keptLog.
func (l *remoteLog) Entry() resume.Entry { return l.entry }

// Delete implements keptLog.
func (l *remoteLog) Delete(ctx context.Context) error {
	v, err := l.s.do(ctx, cancelScript, l.s.names.cancel(l.entry), l.s.o.Prefix, l.entry.ID)
	if err == nil && v != int64(1) {
		err = resume.ErrDropped
	}
	return err
}

// Read implements keptLog.
func (l *remoteLog) Read(ctx context.Context, n uint64) resume.Reader {
	s := l.s
	r := &reader{ctx: ctx, after: n, last: "0-0", name: s.replica + ":" + strconv.FormatInt(s.members.Add(1), 10)}
	r.t = s.tailOf(l.entry, r.name)
	_ = r.t.count() // or it counts soon
	return r
}

// A piece is an entry of the stream of a log.
type piece struct {
	id     string
	at     int64  // the index of its first byte in the log
	before uint64 // the number of the last event before it
	torn   bool   // its first byte does not follow the end of an event
	gap    uint64 // how many numbers before it belong to no event
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

// end returns the index in the log after its last byte.
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

// after returns the index in it after the nth event that ends in it.
func (p *piece) after(n uint64) (at int) {
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
	return n > 0 && p.after(n) == len(p.data)
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

// read returns pieces of a log after the one with the id.
func (s *Store) read(id, after string, n int64) ([]piece, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	entries, err := s.client.XRangeN(ctx, s.names.events(id), "("+after, "+", n).Result()
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
var _ keptLog = (*remoteLog)(nil)
