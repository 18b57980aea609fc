package dialect

import "github.com/dbq-go/dbq/state"

// MoveSets are what the operators' events assign, for the SET of an update; {now} stands for the database's clock. Purge has none: it removes.
// They are plain SQL that every engine here takes as it is; a dialect may write its own.
func MoveSets() map[state.Event]string {
	return map[state.Event]string{
		state.Reject:     "state = 3, due = NULL, updated = {now}",
		state.Revoke:     "state = 3, due = NULL, lease_until = NULL, fence = fence + 1, updated = {now}",
		state.Reenqueue:  "state = 0, due = {now}, attempt = 0, lapses = 0, updated = {now}",
		state.Quarantine: "state = 4, due = NULL, updated = {now}",
		state.Restore:    "state = 3, due = NULL, updated = {now}",
	}
}
