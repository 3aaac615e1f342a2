package caddymodule

// handlerStack is the stack in bytes that growStack makes room for. The goroutine of a
// request to reverse_proxy comes to need 32 KiB, with or without this handler.
const handlerStack = 16 << 10

// growStack makes room on the stack for the handlers behind this one. Otherwise the stack
// doubles again and again as they go deeper, and each time all of its frames are copied.
// Here there are few. The call alone makes the room, since a function checks the stack for
// all of its variables before it begins; use keeps it from also clearing them.
//
//go:noinline
func growStack(use bool) (b byte) {
	if use {
		var room [handlerStack]byte
		for i := range room {
			room[i] = b
			b += room[i/2] + 1
		}
	}
	return b
}
