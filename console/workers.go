package console

import (
	"errors"
	"net/http"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
)

func (c *Console) workersPage(v *visit) error {
	l, err := v.listed()
	if err != nil {
		return err
	}
	v.show(http.StatusOK, "workers", "Workers", struct {
		Workers  []admin.WorkerInfo
		Commands []dbq.Command
	}{l.Workers, commands})
	return nil
}

var commands = []dbq.Command{dbq.CommandPause, dbq.CommandResume, dbq.CommandStop}

// worker returns the worker of the form if the user may command it. One that is gone or dead is ErrNotFound.
func (v *visit) worker() (admin.WorkerInfo, error) {
	if err := v.needSomewhere(auth.Configure); err != nil { // it must not make others read the lists again either
		return admin.WorkerInfo{}, err
	}
	workers, err := v.db.admin.Workers(v.ctx())
	if err != nil {
		return admin.WorkerInfo{}, err
	}
	for _, w := range workers {
		if w.ID == v.named("worker") && !w.Dead && v.may(auth.Read, w.Queue) {
			return w, v.need(auth.Configure, w.Queue)
		}
	}
	return admin.WorkerInfo{}, dbq.ErrNotFound
}

// workerGone leads to the workers if the one of a form has ended, and otherwise returns the error.
func (v *visit) workerGone(err error) error {
	if !errors.Is(err, dbq.ErrNotFound) {
		return err
	}
	v.db.changed()
	return v.done(v.path("workers"), "Nothing was changed: the worker does not run any more.")
}

// confirmStop counts the tasks that a worker holds, and requests a confirmation before it is stopped.
func (c *Console) confirmStop(v *visit) error {
	w, err := v.worker()
	if err != nil {
		return v.workerGone(err)
	}
	// The tasks that a worker holds are those that an operator can revoke.
	n, more, err := v.db.admin.CountMovable(v.ctx(), admin.Revoke,
		admin.Filter{Queue: w.Queue, Holder: w.ID, Limit: previewTo})
	if err != nil {
		return err
	}
	count := tasks(n)
	if more {
		count = "at least " + count
	}
	v.show(http.StatusOK, "workerstop", "Stop worker "+w.ID, struct {
		admin.WorkerInfo
		Count string // of the tasks that it holds
	}{w, count})
	return nil
}

// commandWorker pauses, resumes or stops a worker.
func (c *Console) commandWorker(v *visit) error {
	w, err := v.worker()
	if err != nil {
		return v.workerGone(err)
	}
	command := dbq.Command(v.form("command"))
	if err := v.db.admin.CommandWorker(v.ctx(), w.ID, command); err != nil {
		return v.workerGone(err)
	}
	v.db.changed()
	return v.done(v.path("workers"), "The worker gets the command "+string(command)+" at its next report.")
}
