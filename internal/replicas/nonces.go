package replicas

import (
	"sync"
	"time"
)

const (
	// maxSkew is by how much the clocks of replicas may differ.
	maxSkew = 30 * time.Second
	// maxNonces is the number of asks in a minute that are answered.
	maxNonces = 4096
)

// Nonces are those of the asks of the last minute, so that an ask is answered once. Only asks with a
// valid MAC have one here. The zero value is ready to use. A process has one, because a reload does not
// make old asks new.
type Nonces struct {
	mu    sync.Mutex
	seen  map[string]bool
	order []nonce // the oldest first
}

type nonce struct {
	text string
	at   time.Time
}

// add adds the nonce of an ask. It returns false if the nonce was there before, or if there are too many.
func (n *Nonces) add(text string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.order) > 0 && now.Sub(n.order[0].at) > 2*maxSkew { // an ask of the future is still refused by its nonce
		delete(n.seen, n.order[0].text)
		n.order = n.order[1:]
	}
	if n.seen[text] || len(n.order) >= maxNonces {
		return false
	}
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	n.seen[text] = true
	n.order = append(n.order, nonce{text, now})
	return true
}
