package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// upstream is the server that answers, as far as it is known: what its memory says, and what this stream
// has shown.
//
// That decides which lines of the text are imitated markers (contract section 1). With the option
// auto they are those of the table of tools as long as upstream is not known to send tool events, and
// none from then on.
type upstream struct {
	o      *contract.Options // with the table that says which lines are imitations
	memory contract.UsageMemory

	auto      bool          // the option
	tools     *marker.Table // the option tools
	approvals bool          // this sidecar asks for approvals: imitations of its paragraph are stripped
	told      bool          // the stream or else the memory has said whether upstream sends tool events,
	sends     bool          // and whether it does
	events    fact          // upstream sends tool events
	reports   fact          // it reports its failures itself
}

// fact is what a stream has shown of its upstream. The zero value is that it has shown nothing.
type fact uint8

const (
	factTrue fact = 1 + iota
	factFalse
)

// set records that the fact is true or false, and reports whether that is new.
func (f *fact) set(is bool) (isNew bool) {
	old := *f
	if *f = factFalse; is {
		*f = factTrue
	}
	return *f != old
}

// setReportsFailures records that upstream reports its failures itself, or that it is too old to. The
// third rule of the false stop depends on that.
func (u *upstream) setReportsFailures(does bool) {
	if u.reports.set(does) {
		u.memory.ReportsFailures(does)
	}
}

// lookUp asks the memory whether upstream sends tool events, once, if the text may have a marker:
// the answer may have to be read from storage.
func (u *upstream) lookUp(text []byte) {
	if !u.auto || u.told || bytes.IndexByte(text, '`') < 0 && !bytes.Contains(text, []byte("0060")) {
		return
	}
	if u.told = true; u.memory.SendsEvents() {
		u.sends = true
		u.setTools()
	}
}

// setSendsEvents records that the stream has shown that upstream sends tool events, by one that leaves
// in the form, or that it is too old to. In the forms in which a second sidecar would see no event, it
// changes nothing in this stream: that sidecar would see an imitation in the rest.
func (u *upstream) setSendsEvents(does bool, form contract.Progress) {
	if !u.events.set(does) {
		return
	}
	u.memory.ShowedEvents(does)
	if u.auto && !(does && (form == contract.ProgressOff || form == contract.ProgressComment)) {
		u.told, u.sends = true, does
		u.setTools()
	}
}

// setApprovals records whether this sidecar asks for approvals.
func (u *upstream) setApprovals(on bool) {
	u.approvals = on
	u.setTools()
}

// setTools sets the table that says which lines are imitations.
func (u *upstream) setTools() {
	o := *u.o // other streams share it
	o.Tools = u.tools
	if u.approvals {
		o.Tools = o.Tools.WithApprovals()
	}
	if u.auto && u.sends {
		o.Tools = o.Tools.WithoutImitations()
	}
	u.o = &o
}

// noMemory is the memory of a stream that has none.
type noMemory struct{}

func (noMemory) Reported(string) bool { return false }
func (noMemory) Report(string)        {}
func (noMemory) Missed(string)        {}
func (noMemory) ReportsFailures(bool) {}
func (noMemory) SendsEvents() bool    { return false }
func (noMemory) ShowedEvents(bool)    {}
