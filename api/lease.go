package api

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/google/uuid"
)

// The record of the database that has the key.
const (
	keyNamespace = "api"
	keyName      = "lease-key"
)

// leaseGrace is how long a lease is accepted after its end. Until another worker takes the task over, its holder can
// still settle it.
const leaseGrace = 24 * time.Hour

// leaseVersion is the first byte of a lease. It changes with the form of the rest.
const leaseVersion = 2

const macSize = sha256.Size

var errLeaseKey = errors.New("the key that signs leases is damaged: delete its record, lease-key of namespace api, " +
	"and restart the servers")

// leaseKey signs leases. All servers of a database have the same key, which the first of them creates.
type leaseKey struct{ key atomic.Pointer[[]byte] } // nil until it has been read

// load returns the key. Concurrent calls may read it several times; none waits for another.
func (k *leaseKey) load(ctx context.Context, c *dbq.Client) ([]byte, error) {
	if key := k.key.Load(); key != nil {
		return *key, nil
	}
	text := base64.RawStdEncoding.EncodeToString(random(macSize))
	parts := access.Of(c)
	stored := errors.New("the key exists")
	err := parts.Store.UpdateKV(ctx, keyNamespace, keyName,
		func(old store.Record, exists bool) (string, time.Duration, error) {
			if exists {
				text = old.Value
				return "", 0, stored
			}
			return text, 0, nil
		})
	if err != nil && !errors.Is(err, stored) {
		return nil, parts.Wrap("read the key of leases", "", uuid.Nil, err)
	}
	key, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(key) != macSize {
		return nil, errLeaseKey
	}
	k.key.Store(&key)
	return key, nil
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return b
}

// held is a lease with the facts that only its text has.
type held struct {
	dbq.Lease
	worker  string
	started time.Time // when the attempt began, by the clock of the server that handed the task out
}

// sign returns the text of a lease: its fields and a MAC, in base64.
func sign(key []byte, l held, now time.Time) string {
	b := make([]byte, 0, 64+len(l.Queue)+len(l.worker)+macSize)
	b = append(b, leaseVersion)
	b = append(b, l.TaskID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(l.Fence))
	b = binary.BigEndian.AppendUint32(b, uint32(l.Attempt))
	b = binary.BigEndian.AppendUint64(b, uint64(l.Until.UnixMicro()))
	// now counts too, as the clock of a server may be behind the clock of the server that made the lease.
	b = binary.BigEndian.AppendUint64(b, uint64(max(l.Until.Unix(), now.Unix())+int64(leaseGrace/time.Second)))
	b = binary.BigEndian.AppendUint64(b, uint64(l.started.UnixMicro()))
	renewed := byte(0)
	if l.Renewed {
		renewed = 1
	}
	b = append(b, renewed)
	b = binary.BigEndian.AppendUint16(b, uint16(len(l.Queue)))
	b = append(b, l.Queue...)
	b = append(b, l.worker...)
	return base64.RawURLEncoding.EncodeToString(append(b, mac(key, b)...))
}

func mac(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("dbq lease\x00"))
	h.Write(b)
	return h.Sum(nil)
}

// Offsets in a lease.
const (
	taskAt    = 1
	fenceAt   = taskAt + 16
	attemptAt = fenceAt + 8
	untilAt   = attemptAt + 4
	expiresAt = untilAt + 8
	startedAt = expiresAt + 8
	renewedAt = startedAt + 8
	sizeAt    = renewedAt + 1
	queueAt   = sizeAt + 2
)

// verify returns the lease that sign returned as text. It returns the problem badLease for any other text, and
// dbq.ErrLeaseLost for a lease that has expired long ago.
func verify(key []byte, text string, now time.Time) (l held, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < queueAt+macSize {
		return l, wire.BadLease.Problem()
	}
	b, sum := b[:len(b)-macSize], b[len(b)-macSize:]
	if !hmac.Equal(sum, mac(key, b)) || b[0] != leaseVersion {
		return l, wire.BadLease.Problem()
	}
	size := int(binary.BigEndian.Uint16(b[sizeAt:]))
	if queueAt+size > len(b) {
		return l, wire.BadLease.Problem()
	}
	if now.Unix() > int64(binary.BigEndian.Uint64(b[expiresAt:])) {
		return l, dbq.ErrLeaseLost
	}
	copy(l.TaskID[:], b[taskAt:])
	l.Fence = int64(binary.BigEndian.Uint64(b[fenceAt:]))
	l.Attempt = int(binary.BigEndian.Uint32(b[attemptAt:]))
	l.Until = time.UnixMicro(int64(binary.BigEndian.Uint64(b[untilAt:])))
	l.started = time.UnixMicro(int64(binary.BigEndian.Uint64(b[startedAt:])))
	l.Renewed = b[renewedAt] == 1
	l.Queue, l.worker = string(b[queueAt:queueAt+size]), string(b[queueAt+size:])
	return l, nil
}

// readLeases are the leases of a request: for each a lease or a problem.
type readLeases struct {
	key      []byte
	leases   []held
	problems []*wire.Problem
}

// readLeases verifies the texts of n leases of a queue.
func (a *API) readLeases(ctx context.Context, d *database, queue string, n int, text func(int) string) (
	r readLeases, err error) {
	if r.key, err = d.leases.load(ctx, d.client); err != nil {
		return r, err
	}
	r.leases, r.problems = make([]held, n), make([]*wire.Problem, n)
	now := time.Now()
	for i := range n {
		l, err := verify(r.key, text(i), now)
		if err == nil && l.Queue != queue {
			err = wire.BadLease.Problem()
		}
		if err != nil {
			r.problems[i] = problemOf(err)
			continue
		}
		r.leases[i] = l
	}
	return r, nil
}
