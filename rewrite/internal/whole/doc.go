// Package whole repairs what comes whole: the history that a request carries (wire
// contract, section 5), and an answer that is not streamed (sections 1, 3 and 4).
//
//	history.go   Heal: the walk over the body of a request
//	likeness.go  what is the same between messages, and is not parsed again
//	healtext.go  the marker lines of a text
//	cards.go     which messages are of an answer that Open WebUI has taken apart
//	joincards.go one message for them
//	answer.go    RepairAnswer: content, reasoning and failures of an answer
//
// It holds no state. What needs no repair is returned as it is, without a copy. Heal walks
// over a body once, looks through the texts of the assistant's if there may be a backtick in
// it, and validates it only if there is a marker line or a card in it.
// RepairAnswer validates the answer, and copies it if something changes.
package whole
