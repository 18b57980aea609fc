package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// Problem is the body of every error response, as defined by RFC 9457. Its texts are constant for each type, so it
// never contains a payload or another value from the request.
type Problem struct {
	Type      string    `json:"type"`
	Title     string    `json:"title"`
	Status    int       `json:"status"`
	Detail    string    `json:"detail,omitempty"`
	TaskID    uuid.UUID `json:"task_id,omitzero"`
	Errors    []Field   `json:"errors,omitempty" nullable:"false"`
	RequestID string    `json:"request_id,omitempty"`

	Retry bool          `json:"-"` // the request may be repeated unchanged
	After time.Duration `json:"-"` // after this time, but at least a second
}

// Field is a part of a request that was refused.
type Field struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// At returns a field that was refused.
func At(location, message string) Field { return Field{location, message} }

// Error returns the title and the detail.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// GetStatus returns the status of the response.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of problems.
func (p *Problem) ContentType(string) string { return MediaType }

// GetHeaders returns Retry-After for a request that may be repeated unchanged.
func (p *Problem) GetHeaders() http.Header {
	if p.Retry {
		return http.Header{"Retry-After": {strconv.Itoa(max(1, int(math.Ceil(p.After.Seconds()))))}}
	}
	return nil
}

// Respond sends the problem.
func (p *Problem) Respond(w http.ResponseWriter) {
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", MediaType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller may be gone
}

// In moves the fields of a problem to an element of a list.
func (p *Problem) In(list string, i int) *Problem {
	for n, f := range p.Errors {
		p.Errors[n].Location = fmt.Sprintf("body.%s[%d]%s", list, i, strings.TrimPrefix(f.Location, "body"))
	}
	return p
}

// Prefix is the part of a problem's type before its name.
const Prefix = "urn:dbq:problem:"

// MediaType is the media type of problems.
const MediaType = "application/problem+json"

// Kind is one kind of problem.
type Kind struct {
	Err    error // the error of package dbq that the API reports as this problem, or nil for a problem of HTTP alone
	Name   string
	Status int
	Title  string
	Detail string
	Retry  bool // the request may be repeated unchanged
}

// Problem returns a problem of this kind.
func (k Kind) Problem(fields ...Field) *Problem {
	return &Problem{
		Type: Prefix + k.Name, Title: k.Title, Status: k.Status, Detail: k.Detail, Errors: fields, Retry: k.Retry,
	}
}

// Problems of HTTP alone.
var (
	NoRoute = Kind{Name: "no-such-route", Status: http.StatusNotFound, Title: "there is no such path",
		Detail: "GET /v1/openapi.json lists the paths; check the version, and escape slashes in names as %2F."}
	NoMethod = Kind{Name: "method-not-allowed", Status: http.StatusMethodNotAllowed,
		Title: "the path does not have this method", Detail: "The Allow header lists the methods."}
	NoDatabase = Kind{Name: "no-such-database", Status: http.StatusNotFound, Title: "there is no such database",
		Detail: "GET /v1/databases lists the names of the databases."}
	Unauthenticated = Kind{Name: "unauthenticated", Status: http.StatusUnauthorized, Title: "authentication is required",
		Detail: "Send valid credentials, such as Authorization: Bearer TOKEN. " +
			"A server without authentication accepts only calls of its own machine, without this header."}
	Unchecked = Kind{Name: "credentials-unchecked", Status: http.StatusServiceUnavailable,
		Title:  "credentials cannot be checked now",
		Detail: "The server that checks them does not respond. Nothing was changed.", Retry: true}
	Forbidden = Kind{Name: "forbidden", Status: http.StatusForbidden, Title: "the caller may not do this",
		Detail: "It needs another role, or a role for this queue or database. A caller that may use only some queues " +
			"must name the queue."}
	CrossOrigin = Kind{Name: "cross-origin", Status: http.StatusForbidden, Title: "the request comes from another site",
		Detail: "A browser sent it for a page of another origin."}
	BodyTooLarge = Kind{Name: "body-too-large", Status: http.StatusRequestEntityTooLarge, Title: "the body is too large",
		Detail: "Send fewer tasks in a request, or store the data elsewhere and send a pointer to it."}
	BodyTimeout = Kind{Name: "body-timeout", Status: http.StatusRequestTimeout, Title: "the body came too slowly",
		Detail: "Send the whole body within the server's time-out. Nothing was changed."}
	BadBody = Kind{Name: "body-unreadable", Status: http.StatusBadRequest, Title: "the body could not be read",
		Detail: "The connection ended, or the body is not as long as it claims. Nothing was changed."}
	WrongMediaType = Kind{Name: "media-type", Status: http.StatusUnsupportedMediaType,
		Title:  "the media type is not supported",
		Detail: "Send Content-Type: application/json."}
	BadJSON = Kind{Name: "invalid-json", Status: http.StatusBadRequest, Title: "the body is not valid JSON",
		Detail: "It must be one JSON value in UTF-8. A text must not have half of a surrogate pair, such as \\ud800."}
	BadRequest = Kind{Name: "invalid-request", Status: http.StatusUnprocessableEntity, Title: "the request is invalid",
		Detail: "errors lists the fields. Nothing was changed."}
	BadLease = Kind{Name: "invalid-lease", Status: http.StatusUnprocessableEntity,
		Title: "the lease was not issued for this queue and database", Detail: "Send the lease of a checkout unchanged."}
	Busy = Kind{Name: "overloaded", Status: http.StatusServiceUnavailable, Title: "too many requests are running",
		Detail: "Repeat the request later. Nothing was changed.", Retry: true}
	TooMany = Kind{Name: "rate-limited", Status: http.StatusTooManyRequests, Title: "too many requests of this caller",
		Detail: "Repeat the request after the time in Retry-After. Nothing was changed.", Retry: true}
	TimedOut = Kind{Name: "timeout", Status: http.StatusGatewayTimeout, Title: "the request took too long",
		Detail: "A change may have happened: repeat it with the same reference or Idempotency-Key."}
	Internal = Kind{Name: "internal", Status: http.StatusInternalServerError, Title: "the server failed",
		Detail: "The server's log has the reason under the request's id."}
)

// ofHTTP lists them.
var ofHTTP = []Kind{
	NoRoute, NoMethod, NoDatabase, Unauthenticated, Unchecked, Forbidden, CrossOrigin, BodyTooLarge, BodyTimeout, BadBody,
	WrongMediaType, BadJSON, BadRequest, BadLease, Busy, TooMany, TimedOut, Internal,
}

// sentinels lists the errors of packages dbq, schedule and workflow with their problems, specific ones before those
// that they match, too.
var sentinels = []Kind{
	{dbq.ErrMayHaveHappened, "may-have-happened", 500, "the change may have happened",
		"The connection to the database was lost. Check the outcome before you repeat it without the same reference or " +
			"Idempotency-Key.", false},
	{dbq.ErrLocked, "locked", 409, "another transaction has locked the task", "Settle it again shortly.", true},
	{dbq.ErrWriterBusy, "writer-busy", 503, "the database's writer is busy", "Repeat the request later.", true},
	{dbq.ErrNoDatabase, "database-missing", 503, "the database does not exist", "Create it, then run dbq migrate.", false},
	{dbq.ErrNotMigrated, "not-migrated", 503, "dbq's tables do not exist", "Run dbq migrate.", false},
	{dbq.ErrSchemaOld, "schema-old", 503, "dbq's tables are too old", "Run dbq migrate.", false},
	{dbq.ErrSchemaNew, "schema-new", 503, "dbq's tables are too new", "Update the server.", false},
	{dbq.ErrUnknownScheme, "unknown-scheme", 500, "the database's scheme is unknown",
		"An operator must correct the server's configuration.", false},
	{dbq.ErrDSN, "dsn", 500, "the database's address is invalid",
		"An operator must correct the server's configuration.", false},
	{dbq.ErrServer, "server", 500, "the database cannot be used as it is configured",
		"An operator must change the database's configuration.", false},
	{dbq.ErrDenied, "denied", 500, "the database refused access",
		"The server's database user lacks a privilege; SECURITY.md lists the grants.", false},
	{dbq.ErrClosed, "closed", 503, "the server is stopping", "Repeat the request later.", true},
	{dbq.ErrConflict, "conflict", 503, "too many conflicts with other transactions", "Repeat the request.", true},
	{dbq.ErrUnavailable, "unavailable", 503, "the database cannot be reached",
		"Nothing was changed. Repeat the request later.", true},
	{dbq.ErrDuplicate, "duplicate", 409, "the reference, the id or the unique key is taken",
		"task is the id of the existing task. Nothing was changed.", false},
	{dbq.ErrLeaseLost, "lease-lost", 409, "the lease is lost",
		"The task was settled, taken over, revoked or removed. Stop working on it.", false},
	{dbq.ErrNotFound, "not-found", 404, "not found", "There is no such task, worker, schedule or workflow.", false},
	{dbq.ErrWrongState, "wrong-state", 409, "the task's state does not allow it", "Nothing was changed.", false},

	{dbq.ErrQueueName, "queue-name", 422, "invalid queue name",
		fmt.Sprintf("A name has 1 to %d characters, none of them a control character.", dbq.MaxQueueName), false},
	{dbq.ErrReference, "reference", 422, "invalid reference",
		fmt.Sprintf("A reference has at most %d characters, none of them a control character.", dbq.MaxReference), false},
	{dbq.ErrUnique, "unique", 422, "invalid unique key",
		fmt.Sprintf("A key has at most %d characters. docs/unique.md lists fields that exclude each other.",
			dbq.MaxUniqueKey), false},
	{dbq.ErrKind, "kind", 422, "invalid kind",
		fmt.Sprintf("A kind has at most %d characters, none of them a control character.", dbq.MaxKind), false},
	{dbq.ErrKey, "key", 422, "invalid key",
		fmt.Sprintf("A key has at most %d characters, none of them a control character.", dbq.MaxKey), false},
	{dbq.ErrPriority, "priority", 422, "invalid priority",
		fmt.Sprintf("A priority is 0 (first) to %d.", dbq.MaxPriority), false},
	{dbq.ErrMaxAttempts, "max-attempts", 422, "invalid max attempts",
		fmt.Sprintf("It is 1 to %d.", dbq.MaxMaxAttempts), false},
	{dbq.ErrDelay, "delay", 422, "invalid delay or time",
		fmt.Sprintf("A delay is at least 0 and at most %.0f seconds. Give a delay or a time, not both.",
			dbq.MaxDelay.Seconds()), false},
	{dbq.ErrHeaders, "headers", 422, "invalid headers",
		fmt.Sprintf("Headers have at most %d bytes as JSON, and names without control characters.", dbq.MaxHeaders), false},
	{dbq.ErrPayloadSize, "payload-size", 413, "payload too large",
		"Store it elsewhere and enqueue a pointer to it.", false},
	{dbq.ErrProgress, "progress", 422, "progress too large",
		fmt.Sprintf("Progress has at most %d bytes.", dbq.MaxProgress), false},
	{dbq.ErrID, "task-id", 422, "invalid task id", "A given id must be a UUID of version 7.", false},
	{dbq.ErrCount, "count", 422, "invalid number of tasks",
		fmt.Sprintf("A checkout takes 1 to %d tasks, other requests up to %d.", dbq.MaxCheckout, dbq.MaxBulk), false},
	{dbq.ErrLeaseTime, "lease-time", 422, "invalid lease time",
		fmt.Sprintf("A lease is %g to %.0f seconds.", dbq.MinLease.Seconds(), dbq.MaxLease.Seconds()), false},
	{dbq.ErrWrongQueue, "wrong-queue", 422, "the task belongs to another queue",
		"Send a lease to the queue of its checkout. Give a new task an id of its own.", false},
	{dbq.ErrFilter, "filter", 422, "invalid filter", "Some fields exclude each other, or do not fit the request.", false},
	{dbq.ErrEvent, "event", 422, "invalid event", "docs/states.md lists the operators' events.", false},
	{dbq.ErrOption, "option", 422, "invalid option",
		"A setting, a name, a reason or the number of points of a series is outside its limits.", false},
	{dbq.ErrTx, "transaction", 500, "invalid transaction", "The server's log has the reason.", false},
	{schedule.ErrChanged, "changed", 409, "the schedule was changed meanwhile",
		"It was changed or deleted since it was read, or it exists already. Read it again. Nothing was changed.", false},
	{schedule.ErrDefinition, "schedule", 422, "invalid schedule",
		"errors has the field. docs/schedules.md describes schedules.", false},
	// A definition that is refused because it never fires matches ErrDefinition, too, and is that problem.
	{schedule.ErrNever, "schedule-never", 422, "the schedule never fires", "No day matches its cron expression.", false},
	{workflow.ErrDefinition, "workflow", 422, "invalid workflow",
		"Steps have different names, and need each other without a cycle. docs/workflows.md describes workflows.", false},
	{workflow.ErrNoResult, "no-result", 404, "there is no result",
		"The step has not completed, has completed without one, or was removed.", false},
	{dbq.ErrPayload, "payload", 422, "the payload does not fit its kind",
		"It cannot be encoded or decoded as the kind's type.", false},
	{dbq.ErrInvalid, "invalid", 422, "invalid input", "Nothing was changed.", false},
}

// Sentinels returns the problems of errors, specific ones before those that they match, too.
func Sentinels() []Kind { return sentinels }

// means has further errors that a client reports a problem as, besides its Err.
var means = map[string]error{
	NoDatabase.Name: dbq.ErrNoDatabase, Unauthenticated.Name: dbq.ErrDenied, Forbidden.Name: dbq.ErrDenied,
	CrossOrigin.Name: dbq.ErrDenied, Unchecked.Name: dbq.ErrUnavailable, BodyTooLarge.Name: dbq.ErrInvalid,
	BodyTimeout.Name: dbq.ErrUnavailable, BadBody.Name: dbq.ErrUnavailable, WrongMediaType.Name: dbq.ErrInvalid,
	BadJSON.Name: dbq.ErrInvalid, BadRequest.Name: dbq.ErrInvalid, BadLease.Name: dbq.ErrLeaseLost,
	Busy.Name: dbq.ErrUnavailable, TooMany.Name: dbq.ErrUnavailable, TimedOut.Name: dbq.ErrMayHaveHappened,
	Internal.Name: dbq.ErrMayHaveHappened,

	"writer-busy": dbq.ErrUnavailable, "database-missing": dbq.ErrUnavailable, // as the errors of package dbq
}

// Errors returns the errors of package dbq that a client reports the problem as: at most two.
func (k Kind) Errors() (out []error) {
	for _, err := range []error{k.Err, means[k.Name]} {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// byName has all problems.
var byName = func() map[string]Kind {
	all := map[string]Kind{}
	for _, k := range append(ofHTTP[:len(ofHTTP):len(ofHTTP)], sentinels...) {
		all[k.Name] = k
	}
	return all
}()

// ByName returns the kind of problem with a name, the last part of its type.
func ByName(name string) (Kind, bool) {
	k, ok := byName[name]
	return k, ok
}
