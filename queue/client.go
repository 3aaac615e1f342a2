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
	stamp   uint64    // when it came, or last got a place or gave one back
	index   int       // in line.next while it waits
}

// client returns the state of the client id, which it creates if there is none.
func (n *line) client(id Client) *client {
	c := n.clients[id]
	if c == nil {
		n.stamp++
		c = &client{id: id, stamp: n.stamp}
		n.clients[id] = c
	}
	return c
}

// compare returns a negative number if c's turn is before o's.
func (c *client) compare(o *client) int {
	return cmp.Or(cmp.Compare(c.held, o.held), cmp.Compare(c.stamp, o.stamp))
}

// hold adds places, which may be negative, to the places that c holds.
func (n *line) hold(c *client, places int) {
	n.stamp++
	n.changed = true
	c.held += places
	c.stamp = n.stamp
	if c.waiting.Len() > 0 {
		heap.Fix(&n.next, c.index)
	}
	n.forgetClient(c)
}

// forgetClient removes the client if it neither holds a place nor waits.
func (n *line) forgetClient(c *client) {
	if c.held == 0 && c.waiting.Len() == 0 {
		delete(n.clients, c.id)
	}
}

// enqueue makes t wait, as the first or the last turn of its client.
func (n *line) enqueue(t *Turn, first bool, now time.Time) {
	c := t.client
	if first {
		t.waits = c.waiting.PushFront(t)
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
// another and no run of the clients that wait ended.
func (n *line) count(now time.Time) {
	// A client with h places gets its next ones in rounds h, h+1 and so on. In each round, clients
	// that hold more places now come first, because they have been served less recently.
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
			order = append(order, entry{held, c.held, c.stamp, e.Value.(*Turn)})
			held++
		}
	}
	slices.SortFunc(order, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.held, b.held), cmp.Compare(b.from, a.from), cmp.Compare(a.stamp, b.stamp))
	})
	for i, e := range order {
		e.turn.before = i
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
