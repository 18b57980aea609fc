package dbq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// The kinds of notes: small facts that all who work on the same tables share.
const (
	notePause  = dialect.NotePause // by queue: it hands out nothing
	noteQueue  = "queue"           // by queue: its settings
	noteWorker = "worker"          // by worker: that it is alive, and what it does
	noteOrder  = "order"           // by worker: what it shall do
	noteLead   = "lead"            // by duty: who does it
)

const (
	maxNote   = 4000   // bytes of a note's value, what a text of any engine takes
	maxNotes  = 10_000 // notes of one kind that a call reads
	noteTries = 20     // to change a note that others change at the same time
)

// errNoteBusy is a conflict of ours: others changed the same note each time.
var errNoteBusy = errors.New("others change it at the same time, try again")

// ended reports whether a note's time is over, by the database's clock.
func ended(n dialect.NoteRow) bool { return n.Expires != nil && *n.Expires <= n.Now }

// note reads one note.
func (c *Client) note(ctx context.Context, kind, name string) (n dialect.NoteRow, exists bool, err error) {
	rows, err := c.readNotes(ctx, c.s.Statements.Note, dialect.Args{"kind": kind, "name": name})
	if err != nil || len(rows) == 0 {
		return dialect.NoteRow{}, false, err
	}
	return rows[0], true, nil
}

// notes reads those of a kind by their names, ended ones too.
func (c *Client) notes(ctx context.Context, kind string) ([]dialect.NoteRow, error) {
	return c.readNotes(ctx, c.s.Statements.Notes, dialect.Args{"kind": kind, "limit": maxNotes})
}

func (c *Client) readNotes(ctx context.Context, text string, args dialect.Args) (rows []dialect.NoteRow, err error) {
	err = c.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = dialect.QueryAs[dialect.NoteRow](ctx, c.s, conn, text, args)
		return err
	})
	return rows, err
}

// putNote writes a note whatever it was. A ttl of 0 is for ever.
func (c *Client) putNote(ctx context.Context, kind, name, value string, ttl time.Duration) error {
	return c.changeNote(ctx, kind, name, ttl, func(dialect.NoteRow, bool) (string, error) { return value, nil })
}

// changeNote replaces a note by what change makes of it, atomically: when somebody else changes it in between, it reads and asks again.
func (c *Client) changeNote(ctx context.Context, kind, name string, ttl time.Duration,
	change func(old dialect.NoteRow, exists bool) (string, error)) error {
	for range noteTries {
		old, exists, err := c.note(ctx, kind, name)
		if err != nil {
			return err
		}
		value, err := change(old, exists)
		if err != nil {
			return err
		}
		if done, err := c.setNote(ctx, old, exists, kind, name, value, ttl); done || err != nil {
			return err
		}
	}
	return errNoteBusy
}

// setNote writes a note that was read, and reports whether it was still as it was.
func (c *Client) setNote(ctx context.Context, old dialect.NoteRow, exists bool, kind, name, value string, ttl time.Duration) (done bool, err error) {
	if len(value) > maxNote {
		return false, fmt.Errorf("%w: %d bytes to keep, at most %d are allowed", ErrOption, len(value), maxNote)
	}
	args := dialect.Args{"kind": kind, "name": name, "value": value, "version": old.Version, "ttl": (*int64)(nil)}
	if ttl > 0 {
		us := ttl.Microseconds()
		args["ttl"] = &us
	}
	text := c.s.Statements.AddNote
	if exists {
		text = c.s.Statements.SetNote
	}
	var changed int64
	lost := false
	err = c.write(ctx, func(ctx context.Context, conn dialect.Conn, again bool) (err error) {
		changed, err = c.s.Exec(ctx, conn, text, args)
		if c.s.Class(err) == dialect.Duplicate { // another adds it at the same time
			changed, err = 0, nil
		}
		lost = again && changed == 0
		return err
	})
	if err == nil && lost { // an earlier try of this very call may have done it
		now, there, err := c.note(ctx, kind, name)
		return there && now.Value == value && now.Version == old.Version+1, err
	}
	return changed > 0, err
}

// dropNote removes a note; none is no error.
func (c *Client) dropNote(ctx context.Context, kind, name string) error {
	return c.write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
		_, err := c.s.Exec(ctx, conn, c.s.Statements.DropNote, dialect.Args{"kind": kind, "name": name})
		return err
	})
}

// expireNotes removes the notes of a kind that ended a while ago.
func (c *Client) expireNotes(ctx context.Context, kind string, age time.Duration) error {
	return c.write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
		_, err := c.s.Exec(ctx, conn, c.s.Statements.ExpireNotes, dialect.Args{"kind": kind, "age": age.Microseconds()})
		return err
	})
}
