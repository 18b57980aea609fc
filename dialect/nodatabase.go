package dialect

import (
	"errors"
	"fmt"
)

// ErrNoDatabase is returned if the server has no database with the name in the DSN. Dialects create it with
// NoDatabase when they connect.
var ErrNoDatabase = errors.New("the database does not exist")

// NoDatabase returns an ErrNoDatabase with its cure. cause is the driver's error.
func NoDatabase(name string, cause error) error { return &noDatabase{name, cause} }

type noDatabase struct {
	name  string
	cause error
}

func (e *noDatabase) Error() string {
	return fmt.Sprintf("the database %q does not exist: create it, or correct its name in the DSN", e.name)
}

func (e *noDatabase) Unwrap() []error { return []error{ErrNoDatabase, e.cause} }
