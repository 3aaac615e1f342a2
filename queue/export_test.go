package queue

// Size returns how many lines and clients are remembered.
func (l *Lines) Size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := len(l.lines)
	for _, n := range l.lines {
		size += len(n.clients)
	}
	return size
}
