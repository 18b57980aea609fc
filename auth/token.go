package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// The namespaces of the records of tokens, by a token's id, and of when they were last used.
const (
	tokenNamespace = "token"
	usedNamespace  = "token_used"
)

const (
	tokenPrefix  = "dbq_"
	tokenName    = "token:"    // before the name of a principal that has a token; no user has such a name
	maxListed    = 20          // queues or databases of one token
	usedInterval = time.Minute // between two records of a token's use
	usedTimeout  = time.Second // for such a record
	keepUsed     = 400 * 24 * time.Hour
)

// tokenFormat is dbq_, the public id, and 256 random bits. Secret scanners find a token by this pattern.
var tokenFormat = regexp.MustCompile(`^dbq_([0-9a-f]{16})_[0-9a-f]{64}$`)

// Tokens manages the bearer tokens of a client's tables, and authenticates by them. It is safe for concurrent use and
// needs no Close.
//
// The database stores only the SHA-256 of a token. A token has 256 random bits, so it needs no slow password hash.
// Any database user that can write to the key/value table can create tokens.
type Tokens struct {
	core *core.Core
	name string   // of the client
	used sync.Map // token id -> when its use was last recorded, as time.Time

	accepted sync.Map // hashes of tokens that were accepted and not refused since
	unknown  addressLimits
}

// NewTokens returns the Tokens of a client. It sends nothing to the database.
func NewTokens(c *dbq.Client) *Tokens {
	return &Tokens{core: access.Of(c), name: c.Info().Name, unknown: newAddressLimits()}
}

// NewToken describes a token to create.
type NewToken struct {
	// Name describes the purpose of the token, in 1 to 100 characters. Names need not be unique: a new token can have
	// the name of the one that it replaces.
	Name string
	Role Role
	// Queues and Databases restrict the token to up to 20 names each, and Payloads lets it see payloads; see Principal.
	Queues    []string
	Databases []string
	Payloads  bool
	// TTL is how long the token is valid. Zero means until it is revoked.
	TTL time.Duration
}

// Token describes a token, without its secret.
type Token struct {
	ID        string    `json:"id"` // it is public: the part after dbq_
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Queues    []string  `json:"queues,omitempty"`
	Databases []string  `json:"databases,omitempty"`
	Payloads  bool      `json:"payloads"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero"` // zero is never
	Expired   bool      `json:"expired,omitempty"`
	// Used is when the token was last used, to the minute. It is zero if it never was.
	Used time.Time `json:"used,omitzero"`
}

// tokenRecord is the value of a token's record.
type tokenRecord struct {
	Name      string   `json:"name"`
	Role      Role     `json:"role"`
	Queues    []string `json:"queues,omitempty"`
	Databases []string `json:"databases,omitempty"`
	Payloads  bool     `json:"payloads,omitempty"`
	Hash      string   `json:"hash,omitempty"` // SHA-256 of the whole token, in hexadecimal
}

// Create creates a token and returns its secret, which cannot be read again. It returns dbq.ErrOption for an invalid
// NewToken.
func (t *Tokens) Create(ctx context.Context, n NewToken) (secret string, token Token, err error) {
	if err := n.check(); err != nil {
		return "", Token{}, t.wrap("create token", err)
	}
	var random [40]byte
	_, _ = rand.Read(random[:]) // it never fails
	id := hex.EncodeToString(random[:8])
	secret = tokenPrefix + id + "_" + hex.EncodeToString(random[8:])
	hash := sha256.Sum256([]byte(secret))
	value, err := json.Marshal(tokenRecord{n.Name, n.Role, n.Queues, n.Databases, n.Payloads,
		hex.EncodeToString(hash[:])})
	if err == nil {
		err = t.change(ctx, "create token", id, func(ctx context.Context) error {
			return t.core.Store.PutKV(ctx, tokenNamespace, id, string(value), n.TTL)
		})
	}
	var r store.Record
	if err == nil {
		r, _, err = t.core.Store.GetKV(ctx, tokenNamespace, id)
	}
	if err != nil {
		return "", Token{}, t.wrap("create token", err)
	}
	token, err = tokenOf(r)
	return secret, token, t.wrap("create token", err)
}

// change makes a change, which adds an entry without the token's hash to the audit.
func (t *Tokens) change(ctx context.Context, action, id string, f func(context.Context) error) error {
	entry := store.Audit{Action: action, Subject: id, Show: func(text string) string {
		var v tokenRecord
		if json.Unmarshal([]byte(text), &v) != nil {
			return ""
		}
		v.Hash = ""
		b, _ := json.Marshal(v) // it was just read
		return string(b)
	}}
	ctx, err := store.Audited(ctx, t.name, entry)
	if err != nil {
		return err
	}
	return f(ctx)
}

func (n NewToken) check() error {
	if err := bounds.Text(n.Name, 1, 100, dbq.ErrOption, "token's name"); err != nil {
		return err
	}
	if err := new(Role).UnmarshalText([]byte(n.Role)); err != nil {
		return fmt.Errorf("%w: %w", dbq.ErrOption, err)
	}
	if len(n.Queues) > maxListed || len(n.Databases) > maxListed {
		return fmt.Errorf("%w: a token has at most %d queues and %d databases", dbq.ErrOption, maxListed, maxListed)
	}
	for _, name := range slices.Concat(n.Queues, n.Databases) {
		if err := bounds.Text(name, 1, bounds.MaxQueueName, dbq.ErrOption, "name of a queue or database"); err != nil {
			return err
		}
	}
	return bounds.Range("the time to live", n.TTL, 0, bounds.MaxDelay, dbq.ErrOption)
}

// List returns up to 10,000 tokens, ordered by id, including expired ones.
func (t *Tokens) List(ctx context.Context) ([]Token, error) {
	records, err := t.core.Store.ListKV(ctx, tokenNamespace)
	var used []store.Record
	if err == nil {
		used, err = t.core.Store.ListKV(ctx, usedNamespace)
	}
	if err != nil {
		return nil, t.wrap("list tokens", err)
	}
	last := map[string]time.Time{}
	for _, r := range used {
		last[r.Name] = time.UnixMicro(r.Updated).UTC()
	}
	out := make([]Token, 0, len(records))
	for _, r := range records {
		token, err := tokenOf(r)
		if err != nil {
			token.Name = "unreadable: revoke it" // it authenticates no caller
		}
		token.Used = last[r.Name]
		out = append(out, token)
	}
	return out, nil
}

// Revoke removes a token, which is refused from then on. If no token has this id, it returns dbq.ErrNotFound.
func (t *Tokens) Revoke(ctx context.Context, id string) error {
	_, exists, err := t.core.Store.GetKV(ctx, tokenNamespace, id)
	if err == nil && !exists {
		err = fmt.Errorf("%w: no token has the id %q", dbq.ErrNotFound, id)
	}
	if err == nil {
		err = t.change(ctx, "revoke token", id, func(ctx context.Context) error {
			return t.core.Store.DeleteKV(ctx, tokenNamespace, id)
		})
	}
	if err == nil {
		err = t.core.Store.DeleteKV(ctx, usedNamespace, id)
	}
	return t.wrap("revoke token", err)
}

// Authenticate implements Authenticator: it returns the principal of a bearer token. It reads the database each time,
// so a revoked token is refused immediately. It records the use of a token at most once a minute. Tokens that it has
// not accepted before are read at a limited rate for each address of callers, beyond which it returns ErrTooMany
// without a read.
func (t *Tokens) Authenticate(r *http.Request) (Principal, error) {
	secret, ok := Bearer(r)
	if !ok || !strings.HasPrefix(secret, tokenPrefix) {
		return Principal{}, ErrUnauthenticated
	}
	parts := tokenFormat.FindStringSubmatch(secret)
	if parts == nil {
		return Principal{}, Refused()
	}
	ctx, id, hash := r.Context(), parts[1], sha256.Sum256([]byte(secret))
	if _, known := t.accepted.Load(hash); !known && !t.unknown.allow(r.RemoteAddr) {
		return Principal{}, ErrTooMany
	}
	rec, exists, err := t.core.Store.GetKV(ctx, tokenNamespace, id)
	if err != nil {
		return Principal{}, t.wrap("authenticate", err)
	}
	var v tokenRecord
	if exists && json.Unmarshal([]byte(rec.Value), &v) != nil {
		exists = false
	}
	same := subtle.ConstantTimeCompare([]byte(v.Hash), []byte(hex.EncodeToString(hash[:]))) == 1
	if !exists || !same || rec.Expired() {
		t.accepted.Delete(hash)
		return Principal{}, Refused()
	}
	t.accepted.Store(hash, true)
	t.recordUse(ctx, id)
	return Principal{Name: tokenName + v.Name, Role: v.Role, Queues: v.Queues, Databases: v.Databases,
		Payloads: v.Payloads}, nil
}

// recordUse records that a token is used, unless that was recorded within a minute. A use that cannot be recorded is
// not an error.
func (t *Tokens) recordUse(ctx context.Context, id string) {
	now := time.Now()
	if last, ok := t.used.Load(id); ok && now.Sub(last.(time.Time)) < usedInterval {
		return
	}
	t.used.Store(id, now)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), usedTimeout)
	defer cancel()
	err := t.core.Store.DeleteExpiredKV(ctx, usedNamespace, 0)
	if err == nil {
		err = t.core.Store.PutKV(ctx, usedNamespace, id, "used", keepUsed)
	}
	if err != nil {
		t.core.Logger.Debug("dbq: the use of a token was not recorded", "token", id, "error", t.wrap("use token", err))
	}
}

// Bearer returns the bearer token of a request, if it has one.
func Bearer(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, ok && token != "" && strings.EqualFold(scheme, "Bearer")
}

func tokenOf(r store.Record) (Token, error) {
	var v tokenRecord
	err := json.Unmarshal([]byte(r.Value), &v)
	out := Token{ID: r.Name, Name: v.Name, Role: v.Role, Queues: v.Queues, Databases: v.Databases, Payloads: v.Payloads,
		Created: time.UnixMicro(r.Updated).UTC(), Expired: r.Expired()}
	if r.Expires != nil {
		out.Expires = time.UnixMicro(*r.Expires).UTC()
	}
	return out, err
}

func (t *Tokens) wrap(op string, err error) error { return t.core.Wrap(op, "", uuid.Nil, err) }
