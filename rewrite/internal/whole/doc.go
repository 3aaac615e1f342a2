// Package whole heals what comes whole: the history that a request carries (wire
// contract, section 5), and an answer that is not streamed (sections 1, 3 and 4). It holds
// no state.
//
//	history.go  Heal: the walk over the body of a request
//	healtext.go the marker lines of a text
//	answer.go   RepairAnswer: content, reasoning and failures of an answer
package whole
