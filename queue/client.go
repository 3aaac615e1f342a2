package queue

import (
	"cmp"
	"container/heap"
	"container/list"
	"slices"
	"time"
)

// client is the state of a client in a line.
type client struct {
	id      Client
	held    int
	waiting list.List // of *Turn
	tried   list.List // of *Turn: those that have a place, but that upstream may still refuse
	changed uint64    // the stamp of its last change, apart from the places of tried
	index   int       // in line.next while it waits
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
	if last := c.tried.Back(); last != nil {
		return max(c.changed, last.Value.(*Turn).stamp)
	}
	return c.changed
}

// compare returns a negative number if c's turn is before o's.
func (c *client) compare(o *client) int {
	return cmp.Or(cmp.Compare(c.held, o.held), cmp.Compare(c.stamp(), o.stamp()))
}

// hold adds places, which may be negative, to the places that c holds.
func (n *line) hold(c *client, places int) {
	n.changed = true
	c.held += places
	n.fix(c)
}

// fix restores the order of the clients that wait after c has changed.
func (n *line) fix(c *client) {
	if c.waiting.Len() > 0 {
		heap.Fix(&n.next, c.index)
	}
}

// forgetClient removes the client if it neither holds a place nor waits.
func (n *line) forgetClient(c *client) {
	if c.held == 0 && c.waiting.Len() == 0 {
		delete(n.clients, c.id)
	}
}

// enqueue makes t wait. The turns of a client keep the order in which they joined the line: only
// those that upstream has refused are before one that it refuses.
func (n *line) enqueue(t *Turn, now time.Time) {
	c := t.client
	behind := c.waiting.Front()
	if t.refusals == 0 {
		behind = nil
	}
	for behind != nil && behind.Value.(*Turn).joined < t.joined {
		behind = behind.Next()
	}
	if behind != nil {
		t.waits = c.waiting.InsertBefore(t, behind)
	} else {
		t.waits = c.waiting.PushBack(t)
	}
	n.clients[c.id] = c
	if c.waiting.Len() == 1 {
		heap.Push(&n.next, c)
	}
	n.waiting++
	n.changed = true
	t.queued, t.ready, t.before = now, make(chan struct{}), -1
}

// dequeue ends the wait of t. Its client is kept until forgetClient.
func (n *line) dequeue(t *Turn, now time.Time) {
	c := t.client
	c.waiting.Remove(t.waits)
	t.waits = nil
	if c.waiting.Len() == 0 {
		heap.Remove(&n.next, c.index)
	}
	n.waiting--
	n.changed = true
	t.waited += now.Sub(t.queued)
}

// count sets, for each turn that waits, how many are before it, as if places came free one after
// another and no run of the clients that wait ended. One that upstream may refuse is also
// before it: it would return.
func (n *line) count(now time.Time) {
	// A client with h places gets its next ones in rounds h, h+1 and so on. In each round, clients
	// that hold more places are now first, because they have been served less recently.
	type entry struct {
		held  int // places of its client when it is served
		from  int // places of its client now
		stamp uint64
		turn  *Turn
	}
	order := make([]entry, 0, n.waiting)
	for _, c := range n.next {
		held := c.held
		for e := c.waiting.Front(); e != nil; e = e.Next() {
			order = append(order, entry{held, c.held, c.stamp(), e.Value.(*Turn)})
			held++
		}
	}
	slices.SortFunc(order, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.held, b.held), cmp.Compare(b.from, a.from), cmp.Compare(a.stamp, b.stamp))
	})
	for i, e := range order {
		e.turn.before = i + n.trying
	}
	n.changed, n.counted = false, now
}

// clientHeap is a heap of clients, the next one first.
type clientHeap []*client

func (h clientHeap) Len() int           { return len(h) }
func (h clientHeap) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h clientHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for container/heap.
func (h *clientHeap) Push(c any) {
	c.(*client).index = len(*h)
	*h = append(*h, c.(*client))
}

// Pop is for container/heap.
func (h *clientHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}
