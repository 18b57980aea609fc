package console

import (
	"fmt"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

// typedStates are the words of the pages for states, as a filter may have them.
var typedStates = map[string]dbq.State{
	"waiting": dbq.StateCreated, "running": dbq.StateProcessing, "completed": dbq.StateCompleted,
	"failed": dbq.StateError, "retrying": dbq.StateError, "poisoned": dbq.StatePoison,
}

// add returns the selection with filters that were typed, such as kind:welcome key:"acme inc".
func (s selection) add(text string) (selection, error) {
	fields := map[string]*string{
		"queue": &s.Queue, "state": &s.State, "kind": &s.Kind, "key": &s.Key, "reference": &s.Reference,
		"workflow": &s.Workflow, "worker": &s.Holder, "holder": &s.Holder, "mark": &s.Mark, "older": &s.Older,
		"newer": &s.Newer, "since": &s.Since, "error": &s.Error, "payload": &s.Text, "order": &s.Order,
	}
	for _, filter := range words(text) {
		name, value, ok := strings.Cut(filter, ":")
		to := fields[strings.ToLower(name)]
		switch {
		case !ok:
			return s, formError(fmt.Sprintf("write %q as a name and a value, such as kind:%s", filter, filter))
		case to == nil:
			return s, formError(fmt.Sprintf("%q is no filter; use queue, state, kind, key, reference, workflow, worker, "+
				"since, older, newer, error or payload", name))
		case to == &s.State && strings.EqualFold(value, "parked"):
			s.State, s.Mark = dbq.StateError.String(), "parked"
			continue
		case to == &s.State && strings.EqualFold(value, "cancelled"):
			s.State, s.Mark = dbq.StatePoison.String(), "cancelled"
			continue
		}
		if in, ok := typedStates[strings.ToLower(value)]; ok && to == &s.State {
			value = in.String()
		}
		*to = value
	}
	return s, nil
}

// words splits a text at its spaces, except for those between quotes, which it removes.
func words(text string) (out []string) {
	var word strings.Builder
	quoted, some := false, false
	end := func() {
		if some {
			out = append(out, word.String())
		}
		some = false
		word.Reset()
	}
	for _, r := range text {
		switch {
		case r == '"':
			quoted, some = !quoted, true
		case r == ' ' && !quoted:
			end()
		default:
			some = true
			word.WriteRune(r)
		}
	}
	end()
	return out
}

// stateTab leads to the tasks of a list that are in one state.
type stateTab struct {
	look
	State, Mark string

	Here bool
}

// Tabs returns the tabs of the states.
func (page tasksView) Tabs() (out []stateTab) {
	add := func(l look, s dbq.State, mark string) {
		out = append(out, stateTab{l, s.String(), mark, page.In(s.String()) && page.Selection.Mark == mark})
	}
	failed := looks[dbq.StateError]
	failed.Text = stateWord(dbq.StateError)
	add(looks[dbq.StateCreated], dbq.StateCreated, "")
	add(looks[dbq.StateProcessing], dbq.StateProcessing, "")
	add(failed, dbq.StateError, "")
	add(parkedLook, dbq.StateError, "parked")
	add(looks[dbq.StatePoison], dbq.StatePoison, "")
	add(cancelledLook, dbq.StatePoison, "cancelled")
	add(looks[dbq.StateCompleted], dbq.StateCompleted, "")
	return out
}

// Headline returns which tasks a list has.
func (page tasksView) Headline() string {
	text, s := "Tasks", page.Selection
	switch in, err := state.Parse(s.State); {
	case s.Order == "archive":
		text = "Tasks of the archive"
	case s.Mark == "parked":
		text = "Parked tasks"
	case s.Mark == "cancelled":
		text = "Cancelled tasks"
	case err == nil && in == dbq.StateError:
		text = "Failed tasks"
	case err == nil:
		text = looks[in].Text + " tasks"
	}
	if s.Queue != "" {
		text += " of " + s.Queue
	}
	return text
}

// In reports whether a list has tasks of one state only.
func (page tasksView) In(s string) bool { return strings.EqualFold(page.Selection.State, s) }
