// Package whole repairs what comes whole: the history that a request carries (wire
// contract, section 5), and an answer that is not streamed (sections 1, 3 and 4).
//
//	glance.go    what can be told of a request without reading its messages
//	history.go   Heal: the walk over the body of a request
//	cut.go       what is cut, and messages that leave
//	asks.go      what a request asks for beside its messages
//	likeness.go  what is the same between messages, and is not parsed again
//	healtext.go  the marker lines of a text
//	cards.go     which messages are of an answer that Open WebUI has taken apart
//	joincards.go one message for them
//	answer.go    RepairAnswer: content, reasoning and failures of an answer
//	other.go     other answers, and their secrets
//
// It holds no state. What needs no repair is returned as it is, without a copy. Heal first
// looks for a backtick that a known emoji follows, and for what can be told at a glance. If
// that is not enough it walks over the body once, and checks it on the way if there may be a
// marker line. A body is copied once, with cards and markers, too.
// RepairAnswer validates the answer, and copies it if something changes.
package whole
