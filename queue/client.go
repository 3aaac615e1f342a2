package queue

import (
	"cmp"
	"slices"
	"time"
)

// client is the state of a client in a line.
type client struct {
	id      Client
	held    int
	waiting int     // turns that wait
	tried   []*Turn // those that have a place, but that upstream may still refuse, the newest last
	changed uint64  // the stamp of its last change, apart from the places of tried
}

// client returns the state of the client id, which it creates if there is none.
func (n *line) client(id Client) *client {
	c := n.clients[id]
	if c == nil {
		n.stamp++
		c = &client{id: id, changed: n.stamp}
		n.clients[id] = c
	}
	return c
}

// stamp is when c came, or last got a place or gave one back. A place at which upstream has refused
// the request does not count: a refusal costs the client nothing.
func (c *client) stamp() uint64 {
	if last := len(c.tried) - 1; last >= 0 {
		return max(c.changed, c.tried[last].stamp)
	}
	return c.changed
}

// compare returns a negative number if c's turn is before o's.
func (c *client) compare(o *client) int {
	return cmp.Or(cmp.Compare(c.held, o.held), cmp.Compare(c.stamp(), o.stamp()))
}

// forgetClient removes the client if it neither holds a place nor waits.
func (n *line) forgetClient(c *client) {
	if c.held == 0 && c.waiting == 0 {
		delete(n.clients, c.id)
	}
}

// find returns the index at which t stands in n.waiting, or would.
func (n *line) find(t *Turn) int {
	i, _ := slices.BinarySearchFunc(n.waiting, t, func(a, b *Turn) int { return cmp.Compare(a.joined, b.joined) })
	return i
}

// enqueue makes t wait where it joined the line, also after upstream has refused it.
func (n *line) enqueue(t *Turn, now time.Time) {
	n.waiting = slices.Insert(n.waiting, n.find(t), t)
	n.clients[t.client.id] = t.client
	t.client.waiting++
	n.changed = true
	t.waits, t.queued, t.ready, t.before = true, now, make(chan struct{}), -1
}

// dequeue ends the wait of t. Its client is kept until forgetClient.
func (n *line) dequeue(t *Turn, now time.Time) {
	i := n.find(t)
	n.waiting = slices.Delete(n.waiting, i, i+1)
	t.client.waiting--
	n.changed = true
	t.waits = false
	t.waited += now.Sub(t.queued)
}

// next returns the turn that is the next one to get a place. There must be one that waits.
func (n *line) next() *Turn {
	return slices.MinFunc(n.waiting, func(a, b *Turn) int { return a.client.compare(b.client) })
}

// count sets, for each turn that waits, how many are before it, as if places came free one after
// another and no run of the clients that wait ended. One that upstream may refuse is also
// before it: it would return.
func (n *line) count(now time.Time) {
	// A client with h places gets its next ones in rounds h, h+1 and so on. In each round, clients
	// that hold more places are now first, because they have been served less recently.
	type entry struct {
		round int
		turn  *Turn
	}
	order := make([]entry, 0, len(n.waiting))
	rounds := make(map[*client]int)
	for _, t := range n.waiting {
		order = append(order, entry{t.client.held + rounds[t.client], t})
		rounds[t.client]++
	}
	slices.SortFunc(order, func(a, b entry) int {
		c, o := a.turn.client, b.turn.client
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(o.held, c.held), cmp.Compare(c.stamp(), o.stamp()))
	})
	for i, e := range order {
		e.turn.before = i + n.trying
	}
	n.changed, n.counted = false, now
}
