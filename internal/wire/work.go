package wire

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/state"
)

// Checkout is a request for tasks.
type Checkout struct {
	Max          int              `json:"max,omitempty" default:"1" minimum:"1"`
	LeaseSeconds float64          `json:"lease_seconds,omitempty" default:"30"`
	Wait         duration.Seconds `json:"wait_seconds,omitempty" minimum:"0"`
	Worker       string           `json:"worker,omitempty"`
}

// LeasedTask is a task with the lease of its new holder.
type LeasedTask struct {
	Task
	Lease  string           `json:"lease"`
	Waited duration.Seconds `json:"waited_seconds"`
}

// Extension is a lease to extend.
type Extension struct {
	Lease          string  `json:"lease"`
	Progress       *string `json:"progress,omitempty"`
	ProgressBase64 []byte  `json:"progress_base64,omitempty"`
}

// ExtensionOf returns a lease and its progress as they are sent.
func ExtensionOf(l dbq.Lease) Extension {
	e := Extension{Lease: l.Token}
	if len(l.Progress) > 0 {
		e.Progress, e.ProgressBase64 = text(l.Progress)
	}
	return e
}

// Bytes returns the progress.
func (e Extension) Bytes() []byte { return bytesOf(e.Progress, e.ProgressBase64) }

// Extended is the outcome for one lease.
type Extended struct {
	Lease   string   `json:"lease,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// Settlement describes how an attempt ends.
type Settlement struct {
	Extension
	Outcome      string           `json:"outcome" enum:"complete,delete,fail,retry,park,poison,release"`
	Result       json.RawMessage  `json:"result,omitempty"`
	ResultBase64 []byte           `json:"result_base64,omitempty"`
	Error        string           `json:"error,omitempty"`
	Delay        duration.Seconds `json:"delay_seconds,omitempty" minimum:"0"`
	RetryAt      time.Time        `json:"retry_at,omitzero"`
}

// Settled is the outcome for one lease.
type Settled struct {
	State   *state.State `json:"state,omitempty"`
	Problem *Problem     `json:"problem,omitempty"`
}

// lastTime is the last time that JSON and the databases have.
var lastTime = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// SettlementOf returns a settlement as it is sent. The result is cut as the database would cut it.
func SettlementOf(of dbq.Settlement) Settlement {
	o, s := of.Outcome, Settlement{Extension: ExtensionOf(of.Lease)}
	in, at := access.Delay(o)
	if at.After(lastTime) {
		at = lastTime
	}
	result := bounds.CutResult(o.Result())
	switch event := o.Event(); {
	case event == state.Complete && o.Deletes():
		s.Outcome = "delete"
		return s
	case event == state.Complete:
		s.Outcome = "complete"
		s.Result, s.ResultBase64 = anyOf(result)
		return s
	case event == state.Release:
		s.Outcome, s.Delay = "release", duration.Seconds(in)
		return s
	case event == state.PoisonEvent:
		s.Outcome = "poison"
	case o.Retries():
		s.Outcome, s.Delay, s.RetryAt = "retry", duration.Seconds(in), at
	default:
		s.Outcome = "park"
	}
	s.Error = string(result)
	return s
}

// Of returns the outcome of the Go API.
func (s Settlement) Of() (dbq.Outcome, *Problem) {
	refuse := func(field, message string) (dbq.Outcome, *Problem) {
		return dbq.Outcome{}, BadRequest.Problem(Field{"body." + field, message})
	}
	result, p := BytesOfAny("result", s.Result, s.ResultBase64)
	if p != nil {
		return dbq.Outcome{}, p
	}
	cause := error(nil)
	if s.Error != "" {
		cause = errors.New(s.Error)
	}
	switch {
	case result != nil && s.Outcome != "complete":
		return refuse("result", "only complete has a result")
	case cause != nil && (s.Outcome == "complete" || s.Outcome == "delete" || s.Outcome == "release"):
		return refuse("error", "only fail, retry, park and poison have an error")
	case s.Delay != 0 && s.Outcome != "retry" && s.Outcome != "release":
		return refuse("delay_seconds", "only retry and release have a delay")
	case !s.RetryAt.IsZero() && (s.Outcome != "retry" || s.Delay != 0):
		return refuse("retry_at", "only retry takes it, and not together with delay_seconds")
	}
	switch s.Outcome {
	case "complete":
		return dbq.Completed(result), nil
	case "delete":
		return dbq.Deleted(), nil
	case "fail":
		return dbq.Failed(cause), nil
	case "retry":
		if !s.RetryAt.IsZero() {
			return dbq.RetryAt(s.RetryAt, cause), nil
		}
		return dbq.RetryIn(time.Duration(s.Delay), cause), nil
	case "park":
		return dbq.Parked(cause), nil
	case "poison":
		return dbq.Poisoned(cause), nil
	case "release":
		return dbq.Released(time.Duration(s.Delay)), nil
	}
	return refuse("outcome", "use complete, delete, fail, retry, park, poison or release")
}
