// Package whole repairs bodies that come whole: the history that a request carries (wire
// contract, section 5), and an answer that is not streamed (sections 1, 3 and 4).
//
//	history.go  Heal: messages that are healed, and those that leave
//	text.go     the marker lines of a text
//	copier.go   JSON without the parts that are cut
//	cards.go    the messages of an answer that Open WebUI has taken apart, joined
//	answer.go   RepairAnswer: content, reasoning and failures of an answer
//	other.go    other answers, and their secrets
//
// It holds no state. A body that needs no repair is returned as it is, without a copy.
// Heal validates a body only if it may have a marker or a card, or if the caller asks for it.
// RepairAnswer validates the answer, and copies it if something changes.
package whole
