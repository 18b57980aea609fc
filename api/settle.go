package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

// Settlement describes how an attempt ends.
type Settlement struct {
	Lease          string          `json:"lease"`
	Outcome        string          `json:"outcome" enum:"complete,delete,fail,retry,park,poison,release"`
	Result         json.RawMessage `json:"result,omitempty"`
	ResultBase64   string          `json:"result_base64,omitempty"`
	Error          string          `json:"error,omitempty"`
	DelaySeconds   float64         `json:"delay_seconds,omitempty" minimum:"0"`
	RetryAt        *time.Time      `json:"retry_at,omitempty"`
	Progress       *string         `json:"progress,omitempty"`
	ProgressBase64 []byte          `json:"progress_base64,omitempty"`
}

// outcome returns the outcome of the Go API.
func (s Settlement) outcome() (dbq.Outcome, *Problem) {
	refuse := func(field, message string) (dbq.Outcome, *Problem) {
		return dbq.Outcome{}, badRequest.problem(Field{"body." + field, message})
	}
	result, p := bytesIn{s.Result, s.ResultBase64}.decode("result")
	if p != nil {
		return dbq.Outcome{}, p
	}
	cause := error(nil)
	if s.Error != "" {
		cause = errors.New(s.Error)
	}
	delayed := s.Outcome == "retry" || s.Outcome == "release"
	switch {
	case result != nil && s.Outcome != "complete":
		return refuse("result", "only complete has a result")
	case cause != nil && (s.Outcome == "complete" || s.Outcome == "delete" || s.Outcome == "release"):
		return refuse("error", "only fail, retry, park and poison have an error")
	case s.DelaySeconds != 0 && !delayed:
		return refuse("delay_seconds", "only retry and release have a delay")
	case s.RetryAt != nil && (s.Outcome != "retry" || s.DelaySeconds != 0):
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
		if s.RetryAt != nil {
			return dbq.RetryAt(*s.RetryAt, cause), nil
		}
		return dbq.RetryIn(seconds(s.DelaySeconds), cause), nil
	case "park":
		return dbq.Parked(cause), nil
	case "poison":
		return dbq.Poisoned(cause), nil
	case "release":
		return dbq.Released(seconds(s.DelaySeconds)), nil
	}
	return refuse("outcome", "use complete, delete, fail, retry, park, poison or release")
}

// in moves the fields of a problem to an element of a list.
func (p *Problem) in(list string, i int) *Problem {
	for n, f := range p.Errors {
		p.Errors[n].Location = fmt.Sprintf("body.%s[%d]%s", list, i, strings.TrimPrefix(f.Location, "body"))
	}
	return p
}

// stateName returns the name of a state, or REMOVED for a task that no longer exists.
func stateName(s dbq.State) string {
	if s == state.None {
		return "REMOVED"
	}
	return s.String()
}

// readLeases are the leases of a request: for each a lease or a problem.
type readLeases struct {
	key      []byte
	leases   []held
	problems []*Problem
}

// readLeases verifies the texts of n leases of a queue.
func (a *API) readLeases(ctx context.Context, d *database, queue string, n int, text func(int) string) (
	r readLeases, err error) {
	if r.key, err = d.leases.load(ctx, d.client); err != nil {
		return r, err
	}
	r.leases, r.problems = make([]held, n), make([]*Problem, n)
	now := time.Now()
	for i := range n {
		l, err := verify(r.key, text(i), now)
		if err == nil && l.Queue != queue {
			err = badLease.problem()
		}
		if err != nil {
			r.problems[i] = problemOf(err)
			continue
		}
		r.leases[i] = l
	}
	return r, nil
}
