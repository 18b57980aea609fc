// Package state holds dbq's state machine as data.
//
// The table in this package is the only place where a transition is written down. Guards in SQL, the CHECK constraint,
// conformance cases, docs/states.md, metric labels, the command line's verbs and a page's buttons are derived from it.
// The package imports nothing but the standard library, so that everything else may import it.
package state

import (
	"fmt"
	"strings"
)

// State is where a task stands. The numbers are stored in the database: never renumber them.
type State int16

const (
	// None is the absence of a task: before enqueue and after purge. It is never stored.
	None State = -1
	// Created waits for its due time. It moves to Processing by checkout, or to Error by an operator's reject.
	Created State = 0
	// Processing is leased to one worker. It leaves by the worker's settling call, by an operator's revoke,
	// or is taken over by a checkout once its lease ran out.
	Processing State = 1
	// Completed is done, with an optional result. Only a purge removes it.
	Completed State = 2
	// Error failed or was taken out. With a due time it is retried by itself then; without one it is parked until an
	// operator acts.
	Error State = 3
	// Poison is never handed out again by itself: its attempts are spent, or somebody said so. It waits for a person.
	Poison State = 4
)

var names = map[State]string{
	None: "none", Created: "CREATED", Processing: "PROCESSING", Completed: "COMPLETED", Error: "ERROR", Poison: "POISON",
}

// All lists the stored states in the order of their numbers.
func All() []State { return []State{Created, Processing, Completed, Error, Poison} }

// String is the name of the state as documentation, labels and the command line show it, such as "CREATED".
func (s State) String() string {
	if n, ok := names[s]; ok {
		return n
	}
	return fmt.Sprintf("State(%d)", int16(s))
}

// MarshalText makes a state its name in JSON and in flags.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is the reverse of MarshalText; see Parse.
func (s *State) UnmarshalText(text []byte) error {
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
	return None, fmt.Errorf("state: unknown state %q: use one of %s", name, strings.Join(known, ", "))
}
