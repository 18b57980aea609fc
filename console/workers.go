package console

import (
	"net/http"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
)

func (c *Console) workersPage(v *visit) error {
	o, err := v.overview()
	if err != nil {
		return err
	}
	v.show(http.StatusOK, "workers", "Workers", struct {
		overview
		Commands []dbq.Command
	}{o, commands})
	return nil
}

var commands = []dbq.Command{dbq.CommandPause, dbq.CommandResume, dbq.CommandStop}

// commandWorker pauses, resumes or stops a worker.
func (c *Console) commandWorker(v *visit) error {
	workers, err := v.db.admin.Workers(v.ctx())
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.ID != v.named("worker") {
			continue
		}
		if !v.may(auth.Read, w.Queue) {
			return dbq.ErrNotFound
		}
		if err := v.need(auth.Configure, w.Queue); err != nil {
			return err
		}
		command := dbq.Command(v.form("command"))
		if err := v.db.admin.CommandWorker(v.ctx(), w.ID, command, v.changes()...); err != nil {
			return err
		}
		v.db.overview.expire()
		return v.done(v.path("workers"), "The worker gets the command "+string(command)+" at its next report.")
	}
	return dbq.ErrNotFound
}
