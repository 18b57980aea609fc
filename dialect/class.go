package dialect

import "fmt"

// Class is the meaning of an error for the caller. Metrics may have stored the numbers: never change them.
type Class uint8

const (
	// Unknown: any other error. It is not retried.
	Unknown Class = 0
	// Duplicate: a unique key is taken. Nothing was changed.
	Duplicate Class = 1
	// Conflict: a deadlock, a lock wait timeout or a serialization failure. Nothing was changed; the call is retried.
	Conflict Class = 2
	// Unavailable: the server could not be reached or did not serve. Nothing was changed.
	Unavailable Class = 3
	// Ambiguous: the connection was lost after a statement was sent. The change may have been made.
	Ambiguous Class = 4
	// Missing: a table or a column does not exist. Migrate creates it.
	Missing Class = 5
	// Denied: the password is wrong, or a privilege is missing. Nothing was changed.
	Denied Class = 6
	// Invalid: the engine refused a value. Nothing was changed.
	Invalid Class = 7
)

var classNames = [...]string{
	"unknown",
	"duplicate",
	"conflict",
	"unavailable",
	"ambiguous",
	"missing",
	"denied",
	"invalid",
}

// String returns the class as a metric label.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}
