package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// NamespaceSettings is the namespace of the key/value records with the settings of queues, by queue.
const NamespaceSettings = "queue"

// NamespaceWorkers has the registry of workers, by worker, and NamespaceSchedules the schedules, by name.
const (
	NamespaceWorkers   = "worker"
	NamespaceSchedules = "schedule"
)

// NamespacePause and NamespaceLimit are those of paused queues and of queues with limits, by queue.
const (
	NamespacePause = sqlrun.NamespacePause
	NamespaceLimit = sqlrun.NamespaceLimit
)

// KindPoison is the kind of a notice's task; see dbq.KindPoison.
const KindPoison = "dbq.poison"

// PoisonNotice is the payload of a notice, as JSON; see dbq.PoisonNotice.
type PoisonNotice struct {
	TaskID    uuid.UUID `json:"task_id"`
	Queue     string    `json:"queue"`
	Kind      string    `json:"kind,omitempty"`
	Reference string    `json:"reference,omitempty"`
	Attempt   int       `json:"attempt"`
	Fence     int64     `json:"fence"`
	Error     string    `json:"error,omitempty"`
	Worker    string    `json:"worker,omitempty"`
	At        time.Time `json:"at"`
}

// Notices are the notices that a call has added, and their queue.
type Notices struct {
	Queue string
	Count int
}

// deadLetterQueue returns the dead-letter queue of a queue, or "". If its settings cannot be
// read, it has none: the attempt must end nevertheless.
func (s *Store) deadLetterQueue(ctx context.Context, conn dialect.Conn, queue string) (string, error) {
	rows, err := sqlrun.QueryAs[Record](ctx, s.sql, conn, s.sql.Texts.GetKV,
		dialect.Args{"namespace": NamespaceSettings, "name": queue})
	if err != nil || len(rows) == 0 {
		return "", err
	}
	var set struct {
		DeadLetter string `json:"dead_letter"`
	}
	err = json.Unmarshal([]byte(rows[0].Value), &set)
	if err == nil && set.DeadLetter != "" {
		err = bounds.QueueName(set.DeadLetter)
	}
	if err != nil {
		s.Logger.Error("dbq: no dead-letter notices: the queue's settings cannot be read",
			"queue", queue, "error", err, "cure", "set them again with dbq queue set")
		return "", nil
	}
	return set.DeadLetter, nil
}

// deadLetterQueueApart is deadLetterQueue on a connection of the client's own, if it has some and conn is of a caller's
// transaction. At SERIALIZABLE, MySQL locks the rows that a transaction reads, and the gap if it finds none: operators
// could not change the settings of any queue before the transaction ends.
func (s *Store) deadLetterQueueApart(ctx context.Context, conn dialect.Conn, queue string) (string, error) {
	if s.sql.Server.OneWriter || s.sql.Pool.Caller == nil || s.sql.Pool.Caller == s.sql.Pool.Write {
		return s.deadLetterQueue(ctx, conn, queue)
	}
	return read(ctx, s, func(ctx context.Context, own dialect.Conn) (string, error) {
		return s.deadLetterQueue(ctx, own, queue)
	})
}

// enqueueNotices adds a notice to the queue's dead-letter queue, if it has one, for each task that went to POISON in
// the transaction on conn, whose dead-letter queue settings reads. A notice itself gets none, so that there are no
// loops.
func (s *Store) enqueueNotices(ctx context.Context, conn dialect.Conn, queue string, ids []uuid.UUID,
	settings func(ctx context.Context, conn dialect.Conn, queue string) (string, error)) (added Notices, err error) {
	if len(ids) == 0 {
		return added, nil
	}
	added.Queue, err = settings(ctx, conn, queue)
	if err != nil || added.Queue == "" {
		return added, err
	}
	slices.SortFunc(ids, compareIDs)
	rows, err := queryIDs[dialect.Row](ctx, s, conn, s.sql.Texts.Poisoned, ids)
	var notices []InsertRow
	for i := range rows {
		if rows[i].State == state.Poison && rows[i].Kind != KindPoison && err == nil {
			var n InsertRow
			n, err = s.notice(&rows[i])
			notices = append(notices, n)
		}
	}
	if err != nil || len(notices) == 0 {
		return added, err
	}
	inserted, err := s.newInsertBatch(added.Queue, notices).insert(ctx, conn)
	for _, in := range inserted {
		if !in.Duplicate {
			added.Count++
		}
	}
	return added, err
}

// notice returns the notice of a task. Its reference is unique to this time that the task went to POISON.
func (s *Store) notice(r *dialect.Row) (n InsertRow, err error) {
	about := PoisonNotice{TaskID: r.ID, Queue: r.Queue, Kind: r.Kind, Attempt: r.Attempt, Fence: r.Fence,
		Error: string(r.Result), At: time.UnixMicro(r.Updated).UTC()}
	if r.Reference != nil {
		about.Reference = *r.Reference
	}
	if r.Holder != nil {
		about.Worker = sqlrun.WorkerOf(*r.Holder)
	}
	n = InsertRow{Kind: KindPoison, Reference: fmt.Sprintf("%s:%d", r.ID, r.Fence), MaxAttempts: s.MaxAttempts}
	if n.ID, err = uuid.NewV7(); err == nil {
		n.Payload, err = json.Marshal(about)
	}
	return n, err
}

// noticesOf returns the notices of a checkout that moved tasks to POISON, to wake the workers of their queue.
func (s *Store) noticesOf(ctx context.Context, queue string, rows []dialect.Row, lease time.Duration) (n Notices) {
	for i := range rows {
		if rows[i].State == state.Poison {
			n.Count++
		}
	}
	if n.Count > 0 { // without the answer they are found by polling
		ctx, cancel := context.WithTimeout(ctx, min(expireTimeout, lease/6))
		defer cancel()
		n.Queue, _ = read(ctx, s, func(ctx context.Context, conn dialect.Conn) (string, error) {
			return s.deadLetterQueue(ctx, conn, queue)
		})
	}
	return n
}
