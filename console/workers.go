package console

import (
	"errors"
	"net/http"
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
)

func (c *Console) workersPage(v *visit) error {
	l, err := v.listed()
	if err != nil {
		return err
	}
	var page workersView
	for _, w := range l.Workers {
		if w.Dead {
			page.Lost = append(page.Lost, w)
		} else {
			page.Live = append(page.Live, w)
		}
	}
	v.show(http.StatusOK, "workers", "Workers", page)
	return nil
}

// workersView is the content of the page of the workers.
type workersView struct {
	Lost []admin.WorkerInfo // they have stopped without notice
	Live []admin.WorkerInfo
}

// Headline returns how the workers are.
func (w workersView) Headline() string {
	all := len(w.Lost) + len(w.Live)
	switch {
	case all == 0:
		return "No worker has reported within the last day"
	case len(w.Lost) > 0:
		return number(len(w.Lost)) + " of " + number(all) + " workers stopped without notice"
	case all == 1:
		return "1 worker"
	}
	return number(all) + " workers"
}

// Programs reports whether a live worker has told the name of its program.
func (w workersView) Programs() bool {
	return slices.ContainsFunc(w.Live, func(live admin.WorkerInfo) bool { return live.Program != "" })
}

// Busy returns how many slots of the live workers are busy, such as "3 of 8".
func (w workersView) Busy() string {
	busy, all := 0, 0
	for _, live := range w.Live {
		busy, all = busy+min(live.Holding, live.Concurrency), all+live.Concurrency // a worker can lease ahead
	}
	return number(busy) + " of " + number(all)
}

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
