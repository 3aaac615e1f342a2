package chat

// answer is what the stream has said so far, for the verdict on its end (contract section 3).
type answer struct {
	hasText          bool // a non-space character of content has left
	hasUnclosed      bool // a tool has ended reasoning that no tag had closed, whose words may be the answer
	answered         bool // the reasoning before is an answer: another sidecar says so, see finishChunk
	hasReasoning     bool // a non-space character of reasoning has left
	droppedReasoning bool // reasoning with a non-space character was dropped
	hasOther         bool // tool calls, a refusal and the like have left
	gaveUp           bool // upstream has said that the model stays silent; see saysSilence
	noReply          bool // the only text is Hermes' own word for such silence
	onTool           bool // no text has left since the last tool started
	working          bool // a tool since the last text is not housekeeping; see isHousekeeping
}

// saysText records that text has left.
func (a *answer) saysText() { a.hasText, a.onTool = true, false }

// saysOther records that something other than text has left.
func (a *answer) saysOther() { a.hasOther, a.onTool = true, false }

// toolStarts records that a tool with the name, a JSON string, starts. unclosed says that there are
// words before it in reasoning that no tag has closed.
func (a *answer) toolStarts(name string, unclosed bool) {
	if a.answered = false; unclosed {
		a.hasUnclosed, a.onTool = true, false
	}
	a.working = a.onTool && a.working || !isHousekeeping[name]
	a.onTool = true
}

// mayBeUnclosed reports whether there are words after the last tool in reasoning that no tag has
// closed, as unclosed says, or before it if every tool since then is housekeeping (contract section 4).
func (a *answer) mayBeUnclosed(unclosed bool) bool {
	return a.onTool && (unclosed || a.hasUnclosed && !a.working)
}

// isSettled reports whether more text changes nothing.
func (a *answer) isSettled() bool { return a.hasText && !a.onTool && !a.noReply }

// isHousekeeping has the names, JSON strings, of the tools that Hermes may call after its answer.
// The text before such a tool is the answer (contract section 3, rule 2).
var isHousekeeping = map[string]bool{
	`"memory"`: true, `"todo"`: true, `"todo_list"`: true, `"skill_manage"`: true, `"session_search"`: true,
}
