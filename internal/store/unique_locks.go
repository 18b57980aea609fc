package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// keyTries bounds how often a key is added again that cleaning removes at the same time.
const keyTries = 3

// lockTries and lockPause bound how long a task may be locked that a key names since it was found: a checkout locks it
// for a moment.
const (
	lockTries = 3
	lockPause = 5 * time.Millisecond
)

// lockTasks locks the tasks that the keys name. One that was removed, or has completed, cannot return.
func (b *uniqueBatch) lockTasks(ctx context.Context, conn dialect.Conn) error {
	var keys []*uniqueKey
	for _, k := range b.keys {
		if k.found != nil && k.found.State != nil && *k.found.State != int64(state.Completed) {
			k.row = *k.found
			keys = append(keys, k)
		}
	}
	return b.lock(ctx, conn, keys)
}

// lock locks the tasks that some keys name, if they wait and, where a key is held until its task ends, if they run. A
// task that moved to another queue under its id is not one of them.
func (b *uniqueBatch) lock(ctx context.Context, conn dialect.Conn, keys []*uniqueKey) error {
	ids := map[bool][]uuid.UUID{}
	for _, k := range keys {
		ids[k.unfinished] = append(ids[k.unfinished], k.row.Task)
	}
	for _, unfinished := range []bool{false, true} {
		if len(ids[unfinished]) == 0 {
			continue
		}
		sorted := slices.SortedFunc(slices.Values(ids[unfinished]), compareIDs)
		sorted = slices.Compact(sorted)
		args := dialect.Args{"id": dialect.Col[uuid.UUID](sorted), "running": int64(0)}
		if unfinished {
			args["running"] = int64(1)
		}
		rows, err := b.s.sql.QueryBatch(ctx, conn, b.s.sql.Texts.LockWaiting, args, len(sorted))
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(r dialect.Row) bool { return r.Queue != b.queue })
		maps.Copy(b.locked, byID(rows))
	}
	return nil
}

// lockKeys locks the keys, and adds those that do not exist.
func (b *uniqueBatch) lockKeys(ctx context.Context, conn dialect.Conn) error {
	todo := b.keys
	for range keyTries {
		if len(todo) == 0 {
			return nil
		}
		if err := b.addKeys(ctx, conn, todo); err != nil {
			return err
		}
		args := dialect.Args{"id": dialect.Col[uuid.UUID](idsOfKeys(todo))}
		rows, err := sqlrun.QueryBatchAs[sqlrun.KeyRow](ctx, b.s.sql, conn, b.s.sql.Texts.LockKeys, args, len(todo))
		if err != nil {
			return err
		}
		locked := map[uuid.UUID]sqlrun.KeyRow{}
		for _, r := range rows {
			locked[r.ID] = r
		}
		todo = slices.DeleteFunc(slices.Clone(todo), func(k *uniqueKey) bool {
			row, exists := locked[k.id]
			k.row, k.fresh = row, exists && k.found == nil && row.Task == b.rows[k.rows[0]].ID
			if !exists { // cleaning has removed it, or this transaction cannot see it
				k.found = nil
			}
			return exists
		})
	}
	if len(todo) == 0 {
		return nil
	}
	return fmt.Errorf("%w: another transaction has taken the unique key", errs.ErrConflict)
}

// addKeys adds those of keys that were not found.
func (b *uniqueBatch) addKeys(ctx context.Context, conn dialect.Conn, keys []*uniqueKey) error {
	var id, task dialect.Col[uuid.UUID]
	var scope, name dialect.Col[string]
	var expires dialect.Col[int64]
	for _, k := range keys {
		if k.found == nil {
			id, task = append(id, k.id), append(task, b.rows[k.rows[0]].ID)
			scope, name, expires = append(scope, k.scope), append(name, k.name), append(expires, k.expires)
		}
	}
	if len(id) == 0 {
		return nil
	}
	args := dialect.Args{"queue": b.queue, "id": id, "task": task, "scope": scope, "name": name, "expires": expires}
	_, err := b.s.sql.ExecBatch(ctx, conn, b.s.sql.Texts.AddKeys, args, len(id))
	return err
}

// lockChanged locks the tasks of keys that another transaction took after findKeys. It does not wait for them, because
// their keys are locked by now: a transaction that has locked such a task, to complete it, may wait for its key.
func (b *uniqueBatch) lockChanged(ctx context.Context, conn dialect.Conn) error {
	var keys []*uniqueKey
	for _, k := range b.keys {
		same := k.found != nil && k.found.Task == k.row.Task && k.found.Expires == k.row.Expires
		if !same && !k.fresh {
			keys = append(keys, k)
		}
	}
	if len(keys) > 0 && b.s.sql.Texts.LockFree.SQL != "" {
		if err := b.lockFree(ctx, conn, keys); err != nil {
			return err
		}
	}
	return b.lock(ctx, conn, keys)
}

// lockFree locks the tasks that some keys name. If others keep one of them locked, or it was removed, it returns
// ErrConflict, and the transaction is to be repeated from findKeys.
func (b *uniqueBatch) lockFree(ctx context.Context, conn dialect.Conn, keys []*uniqueKey) error {
	ids := make(dialect.Col[uuid.UUID], len(keys))
	for i, k := range keys {
		ids[i] = k.row.Task
	}
	slices.SortFunc(ids, compareIDs)
	ids = slices.Compact(ids)
	for range lockTries {
		rows, err := b.s.sql.QueryBatch(ctx, conn, b.s.sql.Texts.LockFree, dialect.Args{"id": ids}, len(ids))
		if err != nil || len(rows) == len(ids) {
			return err
		}
		if err := Sleep(ctx, lockPause); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: another transaction has taken the unique key", errs.ErrConflict)
}
