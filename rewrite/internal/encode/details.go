package encode

import (
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/requests"
)

// The members of a tool event that say what the tool was given and what it returned (contract section 8).
const (
	memberArgs   = "args"
	memberResult = "result"
	memberFailed = "failed"
)

// DetailsIn returns the details that the tool event x has from another sidecar or from upstream, and
// whether it has any.
func DetailsIn(x *chunk.Object) (d contract.ToolDetails, told bool) {
	if !x.C.Extra {
		return d, false
	}
	args, result := x.Member(memberArgs), x.Member(memberResult)
	if args.IsSet(x.F.Data) {
		d.Args = slices.Clone(jsonspan.OneLine(x.Value(args)))
	}
	if result.IsSet(x.F.Data) {
		d.Result = slices.Clone(jsonspan.OneLine(x.Value(result)))
	}
	d.Failed = x.Member(memberFailed).Is(x.F.Data, "true")
	return d, args.Ok() || result.Ok()
}

// SaysFailed reports whether the tool event x, nil for none, says itself whether its tool has failed.
func SaysFailed(x *chunk.Object) bool { return hasMember(x, memberFailed) }

// hasMember reports whether the tool event x, nil for none, has a member that not every event has.
func hasMember(x *chunk.Object, name string) bool {
	return x != nil && x.C.Extra && x.Member(name).Ok()
}

// details returns the members of the event of t that say what the tool was given and what it returned, and, if
// failed is true, that it has failed.
func (t *Transition) details(failed bool) (members string) {
	add := func(name string, value []byte) {
		if value != nil {
			members += `,"` + name + `":` + string(value)
		}
	}
	add(memberArgs, t.Details.Args)
	if t.Completed {
		add(memberResult, t.Details.Result)
		if failed {
			add(memberFailed, []byte("true"))
		}
	}
	return members
}

// addedDetails returns those members that Event lacks.
func (t *Transition) addedDetails() string {
	if t.Told {
		return ""
	}
	return t.details(t.Details.Failed && !SaysFailed(t.Event))
}

// addedApproval returns the member that says what became of a tool that has waited, unless Event has one.
func (t *Transition) addedApproval() string {
	if hasMember(t.Event, requests.MemberOutcome) {
		return ""
	}
	return t.approval()
}
