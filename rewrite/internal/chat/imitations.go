package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// imitations says which lines of the text are imitated markers (contract section 1). With the option
// auto they are those of the table of tools as long as upstream is not known to send tool events, and
// none from then on.
type imitations struct {
	auto  bool          // the option
	tools *marker.Table // the option tools

	shown, shows bool // the stream has shown whether upstream sends tool events, and whether it does
	told, sends  bool // the stream or else the memory has said it for this stream, and whether it does
}

// askSendsEvents asks the memory whether upstream sends tool events, once, if the text may have a
// marker: the answer may have to come from storage.
func (s *Stream) askSendsEvents(text []byte) {
	i := &s.imitations
	if !i.auto || i.told || bytes.IndexByte(text, '`') < 0 && !bytes.Contains(text, []byte("0060")) {
		return
	}
	if i.told = true; s.memory != nil && s.memory.SendsEvents() {
		i.sends = true
		s.setTools()
	}
}

// setSendsEvents records that the stream has shown that upstream sends tool events, by one that leaves,
// or that it is too old to. In the forms in which a second sidecar would see no event, it changes
// nothing in this stream: that sidecar would take what stays for an imitation.
func (s *Stream) setSendsEvents(does bool) {
	i := &s.imitations
	if i.shown && i.shows == does {
		return
	}
	i.shown, i.shows = true, does
	if s.memory != nil {
		s.memory.ShowedEvents(does)
	}
	if f := s.w.Form; i.auto && !(does && (f == contract.ProgressOff || f == contract.ProgressComment)) {
		i.told, i.sends = true, does
		s.setTools()
	}
}

// setTools sets the table that says which lines are imitations.
func (s *Stream) setTools() {
	i, o := &s.imitations, *s.o // other streams share it
	o.Tools = i.tools
	if s.approvals != nil && !s.approvals.elsewhere {
		o.Tools = o.Tools.WithApprovals()
	}
	if i.auto && i.sends {
		o.Tools = o.Tools.WithoutImitations()
	}
	s.o = &o
}
