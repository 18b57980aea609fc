// Package core holds the parts of a client, for the packages that build on it: admin, worker and the features. They
// reach it through package access.
package core

import (
	"log/slog"
	"sync"
	"time"

	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
	"github.com/google/uuid"
)

// Core holds the parts of a client.
type Core struct {
	Store   *store.Store
	Wake    *wake.Waker
	Control *control.Control
	Logger  *slog.Logger
	// Wrap returns an error as a dbq.Error, unless it is nil or already one.
	Wrap func(op, queue string, task uuid.UUID, err error) error
	// Observe reports a call that began at start to the client's observers.
	Observe func(op, queue string, tasks int, tx bool, start time.Time, err error)

	slow     chan struct{} // has the changes of workflows that take long; see bounded
	slowOnce sync.Once
}

// Root is the root package's value for package access, which declares its methods. This package is below the root and
// cannot name the root's types. The root sets it when it is initialized.
var Root any
