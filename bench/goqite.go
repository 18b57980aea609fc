package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// goqiteLoop is goqite's technique as a plain loop: one UPDATE ... RETURNING for each message, which hides it for a
// while, and a DELETE when it is done. The table has goqite's columns and index. Completed messages are not kept.
type goqiteLoop struct {
	place *sqlitePlace
	db    *sql.DB
}

const (
	goqiteConns      = 1 // more only wait for the first one's lock
	goqiteGoroutines = 4
	goqiteHidden     = 5 * time.Minute
	goqiteReceives   = 10

	goqiteTable = `
CREATE TABLE goqite (
  id TEXT PRIMARY KEY DEFAULT ('m_' || lower(hex(randomblob(16)))),
  created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
  updated TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
  queue TEXT NOT NULL,
  body BLOB NOT NULL,
  timeout TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
  received INTEGER NOT NULL DEFAULT 0,
  priority INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TRIGGER goqite_updated AFTER UPDATE ON goqite BEGIN
  UPDATE goqite SET updated = strftime('%Y-%m-%dT%H:%M:%fZ') WHERE id = old.id;
END;
CREATE INDEX goqite_next ON goqite (queue, priority DESC, created);`
	goqiteSend    = `INSERT INTO goqite (queue, body, timeout, priority) VALUES ('bench', ?, ?, 0)`
	goqiteReceive = `
UPDATE goqite
   SET timeout = ?, received = received + 1
 WHERE id = (
         SELECT id
           FROM goqite
          WHERE queue = 'bench' AND ? >= timeout AND received < ?
          ORDER BY priority DESC, created
          LIMIT 1)
RETURNING id, body, received`
	goqiteDelete = `DELETE FROM goqite WHERE queue = 'bench' AND id = ? AND received = ?`
	goqiteTime   = "2006-01-02T15:04:05.000Z"
)

func (g *goqiteLoop) Prepare(ctx context.Context) (err error) {
	if err := g.Close(ctx); err != nil {
		return err
	}
	if g.db, err = g.place.db(goqiteConns); err == nil {
		_, err = g.db.ExecContext(ctx, goqiteTable)
	}
	return err
}

func (g *goqiteLoop) Enqueue(ctx context.Context, from, to, batch int) error {
	return ranges(from, to, batch, func(from, to int) error {
		tx, err := g.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for i := from; i < to && err == nil; i++ {
			_, err = tx.ExecContext(ctx, goqiteSend, newPayload(i).encode(), time.Now().UTC().Format(goqiteTime))
		}
		if err != nil {
			_ = tx.Rollback() // the first error is the one to report
			return err
		}
		return tx.Commit()
	})
}

func (g *goqiteLoop) Drain(ctx context.Context, n int, done *ledger) (time.Duration, error) {
	return drainAll(ctx, g, n, done)
}

func (g *goqiteLoop) Work(ctx context.Context, stop <-chan struct{}, handled func(int)) (time.Time, error) {
	return loops(ctx, goqiteGoroutines, stop, func(ctx context.Context, _ int) (bool, error) {
		return g.receive(ctx, handled)
	})
}

// receive handles one message.
func (g *goqiteLoop) receive(ctx context.Context, handled func(int)) (found bool, err error) {
	now := time.Now().UTC()
	var id string
	var body []byte
	var received int
	err = g.db.QueryRowContext(ctx, goqiteReceive,
		now.Add(goqiteHidden).Format(goqiteTime), now.Format(goqiteTime), goqiteReceives).Scan(&id, &body, &received)
	if err == sql.ErrNoRows {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	number, err := numberOf(body)
	if err != nil {
		return false, err
	}
	handled(number)
	result, err := g.db.ExecContext(ctx, goqiteDelete, id, received)
	if err != nil {
		return false, err
	}
	if rows, err := result.RowsAffected(); err != nil || rows != 1 {
		return false, fmt.Errorf("%d messages deleted instead of 1 (%v)", rows, err)
	}
	return true, nil
}

func (g *goqiteLoop) Stored(ctx context.Context) (completed, others int, err error) {
	err = g.db.QueryRowContext(ctx, `SELECT count(*) FROM goqite`).Scan(&others)
	return 0, others, err
}

func (g *goqiteLoop) Close(ctx context.Context) error {
	if err := closeDB(g.db); err != nil {
		return err
	}
	return g.place.Clear(ctx)
}
