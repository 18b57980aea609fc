// Package state defines dbq's state machine as data.
//
// Its table is the only definition of the transitions. The guards in SQL, the CHECK constraint, the conformance
// cases, docs/states.md, metric labels and the operators' commands of the command line are derived from it. The
// package imports only the standard library, so that every other package can import it.
package state

import (
	"fmt"
	"strings"
)

// State is the state of a task. The numbers are stored in the database and never change.
type State int16

const (
	// None is the absence of a task: before enqueue and after purge. It is never stored.
	None State = -1
	// Created waits for its due time. It moves to Processing by a checkout, or to Error or Poison or Completed when an
	// operator rejects, cancels or finishes it.
	Created State = 0
	// Processing is leased to one worker. It ends when the worker settles it or an operator revokes or cancels it. Once
	// the lease expires, a checkout takes the task over.
	Processing State = 1
	// Completed ended successfully, with an optional result. An operator or cleaning removes it.
	Completed State = 2
	// Error failed, or was rejected or revoked. With a due time it is retried at that time. Without one it is parked:
	// it waits for an operator.
	Error State = 3
	// Poison is not handed out again: its attempts are exhausted, a handler or an operator decided so, or it was
	// cancelled. It waits for an operator.
	Poison State = 4
)

var names = map[State]string{
	None: "none", Created: "CREATED", Processing: "PROCESSING", Completed: "COMPLETED", Error: "ERROR", Poison: "POISON",
}

// All returns the stored states, in the order of their numbers.
func All() []State { return []State{Created, Processing, Completed, Error, Poison} }

// String returns the name of the state as documentation, labels and the command line show it, such as "CREATED".
func (s State) String() string {
	if n, ok := names[s]; ok {
		return n
	}
	return fmt.Sprintf("State(%d)", int16(s))
}

// removed is the text of None: JSON has the state only of a task that existed.
const removed = "REMOVED"

// MarshalText returns the name of the state, for JSON and flags. That of None is REMOVED.
func (s State) MarshalText() ([]byte, error) {
	if s == None {
		return []byte(removed), nil
	}
	return []byte(s.String()), nil
}

// UnmarshalText sets the state by its name. It accepts the output of MarshalText, and the texts that Parse accepts.
func (s *State) UnmarshalText(text []byte) error {
	if string(text) == removed {
		*s = None
		return nil
	}
	p, err := Parse(string(text))
	if err == nil {
		*s = p
	}
	return err
}

// Parse finds a stored state by its name, in any case. Its error names the known ones.
func Parse(name string) (State, error) {
	var known []string
	for _, s := range All() {
		if strings.EqualFold(name, names[s]) {
			return s, nil
		}
		known = append(known, names[s])
	}
	return None, fmt.Errorf("state: unknown state: use one of %s", strings.Join(known, ", "))
}
