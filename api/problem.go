package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// ProblemType is the prefix of Problem.Type.
const ProblemType = "urn:dbq:problem:"

// Problem is the body of every error response, as defined by RFC 9457. Its texts are constant for each type, so it
// never contains a payload or another value from the request.
type Problem struct {
	Type      string  `json:"type"`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Detail    string  `json:"detail,omitempty"`
	Task      string  `json:"task,omitempty"`
	Errors    []Field `json:"errors,omitempty" nullable:"false"`
	RequestID string  `json:"request_id,omitempty"`

	retry bool          // the request may be repeated unchanged
	after time.Duration // after this time, but at least a second
}

// Field is a part of a request that was refused.
type Field struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Error returns the title and the detail.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// GetStatus returns the status of the response.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of problems.
func (p *Problem) ContentType(string) string { return problemJSON }

// GetHeaders returns Retry-After for a request that may be repeated unchanged.
func (p *Problem) GetHeaders() http.Header {
	if p.retry {
		return http.Header{"Retry-After": {strconv.Itoa(max(1, int(math.Ceil(p.after.Seconds()))))}}
	}
	return nil
}

const problemJSON = "application/problem+json"

// kind is a row of the table of problems.
type kind struct {
	err    error // the error of the Go API, or nil for a problem of HTTP alone
	name   string
	status int
	title  string
	detail string
	retry  bool
}

// Problems of HTTP alone. The first word of each is its name in a Problem's type.
var (
	noRoute = kind{name: "no-such-route", status: http.StatusNotFound, title: "there is no such path",
		detail: "GET /v1/openapi.json lists the paths; check the version, and escape slashes in names as %2F."}
	noMethod = kind{name: "method-not-allowed", status: http.StatusMethodNotAllowed,
		title: "the path does not have this method", detail: "The Allow header lists the methods."}
	noDatabase = kind{name: "no-such-database", status: http.StatusNotFound, title: "there is no such database",
		detail: "GET /v1/databases lists the names of the databases."}
	unauthenticated = kind{name: "unauthenticated", status: http.StatusUnauthorized, title: "authentication is required",
		detail: "Send valid credentials, such as Authorization: Bearer TOKEN. " +
			"A server without authentication accepts only calls of its own machine, without this header."}
	unchecked = kind{name: "credentials-unchecked", status: http.StatusServiceUnavailable,
		title:  "credentials cannot be checked now",
		detail: "The server that checks them does not respond. Nothing was changed.", retry: true}
	forbidden = kind{name: "forbidden", status: http.StatusForbidden, title: "the caller may not do this",
		detail: "It needs another role, or a role for this queue or database. A caller that may use only some queues " +
			"must name the queue."}
	crossOrigin = kind{name: "cross-origin", status: http.StatusForbidden, title: "the request comes from another site",
		detail: "A browser sent it for a page of another origin."}
	bodyTooLarge = kind{name: "body-too-large", status: http.StatusRequestEntityTooLarge, title: "the body is too large",
		detail: "Send fewer tasks in a request, or store the data elsewhere and send a pointer to it."}
	bodyTimeout = kind{name: "body-timeout", status: http.StatusRequestTimeout, title: "the body came too slowly",
		detail: "Send the whole body within the server's time-out. Nothing was changed."}
	badBody = kind{name: "body-unreadable", status: http.StatusBadRequest, title: "the body could not be read",
		detail: "The connection ended, or the body is not as long as it claims. Nothing was changed."}
	mediaType = kind{name: "media-type", status: http.StatusUnsupportedMediaType, title: "the media type is not supported",
		detail: "Send Content-Type: application/json, or application/x-ndjson for a stream of tasks."}
	badJSON = kind{name: "invalid-json", status: http.StatusBadRequest, title: "the body is not valid JSON",
		detail: "It must be one JSON value in UTF-8. A text must not have half of a surrogate pair, such as \\ud800."}
	badRequest = kind{name: "invalid-request", status: http.StatusUnprocessableEntity, title: "the request is invalid",
		detail: "errors lists the fields. Nothing was changed."}
	badLease = kind{name: "invalid-lease", status: http.StatusUnprocessableEntity,
		title: "the lease was not issued for this queue and database", detail: "Send the lease of a checkout unchanged."}
	busy = kind{name: "overloaded", status: http.StatusServiceUnavailable, title: "too many requests are running",
		detail: "Repeat the request later. Nothing was changed.", retry: true}
	tooMany = kind{name: "rate-limited", status: http.StatusTooManyRequests, title: "too many requests of this caller",
		detail: "Repeat the request after the time in Retry-After. Nothing was changed.", retry: true}
	timedOut = kind{name: "timeout", status: http.StatusGatewayTimeout, title: "the request took too long",
		detail: "A change may have happened: repeat it with the same reference or Idempotency-Key."}
	internal = kind{name: "internal", status: http.StatusInternalServerError, title: "the server failed",
		detail: "The server's log has the reason under the request's id."}
)

// sentinels lists the errors of packages dbq, schedule and workflow with their problems, specific ones before those
// that they match, too.
var sentinels = []kind{
	{dbq.ErrMayHaveHappened, "may-have-happened", 500, "the change may have happened",
		"The connection to the database was lost. Repeat the request with the same reference or Idempotency-Key.", false},
	{dbq.ErrLocked, "locked", 409, "another transaction has locked the task", "Settle it again shortly.", true},
	{dbq.ErrWriterBusy, "writer-busy", 503, "the database's writer is busy", "Repeat the request later.", true},
	{dbq.ErrNoDatabase, "database-missing", 503, "the database does not exist", "An operator must create it.", false},
	{dbq.ErrNotMigrated, "not-migrated", 503, "dbq's tables do not exist", "An operator must run dbq migrate.", false},
	{dbq.ErrSchemaOld, "schema-old", 503, "dbq's tables are too old", "An operator must run dbq migrate.", false},
	{dbq.ErrSchemaNew, "schema-new", 503, "dbq's tables are too new", "An operator must update the server.", false},
	{dbq.ErrUnknownScheme, "unknown-scheme", 500, "the database's scheme is unknown",
		"An operator must correct the server's configuration.", false},
	{dbq.ErrDSN, "dsn", 500, "the database's address is invalid",
		"An operator must correct the server's configuration.", false},
	{dbq.ErrServer, "server", 500, "the database cannot be used as it is configured",
		"An operator must change the database's configuration.", false},
	{dbq.ErrDenied, "denied", 500, "the database refused access", "An operator must check the server's rights.", false},
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
	{dbq.ErrWrongQueue, "wrong-queue", 422, "the lease belongs to another queue",
		"Send it to the queue of its checkout.", false},
	{dbq.ErrFilter, "filter", 422, "invalid filter", "Some fields exclude each other, or do not fit the request.", false},
	{dbq.ErrEvent, "event", 422, "invalid event", "docs/states.md lists the operators' events.", false},
	{dbq.ErrOption, "option", 422, "invalid option",
		"A setting, a name, a reason or the number of points of a series is outside its limits.", false},
	{dbq.ErrTx, "transaction", 500, "invalid transaction", "The server's log has the reason.", false},
	{schedule.ErrChanged, "changed", 409, "the schedule was changed meanwhile",
		"It was changed or deleted since it was read, or it exists already. Read it again. Nothing was changed.", false},
	{schedule.ErrDefinition, "schedule", 422, "invalid schedule",
		"errors has the field. docs/schedules.md describes schedules.", false},
	{workflow.ErrDefinition, "workflow", 422, "invalid workflow",
		"Steps have different names, and need each other without a cycle. docs/workflows.md describes workflows.", false},
	{dbq.ErrInvalid, "invalid", 422, "invalid input", "Nothing was changed.", false},
}

// problem returns a problem of this kind.
func (k kind) problem(fields ...Field) *Problem {
	return &Problem{
		Type: ProblemType + k.name, Title: k.title, Status: k.status, Detail: k.detail, Errors: fields, retry: k.retry,
	}
}

// taskNumber finds which task of a batch an error is about.
var taskNumber = regexp.MustCompile(`(?:^|: )task (\d+) of \d+: `)

// problemOf returns the problem of an error. Of the error's text it uses only the number of a task.
func problemOf(err error) *Problem {
	var own *Problem
	if errors.As(err, &own) {
		return own
	}
	for _, k := range sentinels {
		if !errors.Is(err, k.err) {
			continue
		}
		p := k.problem()
		var failed *dbq.Error
		if errors.As(err, &failed) && failed.Task != uuid.Nil {
			p.Task = failed.Task.String()
		}
		if m := taskNumber.FindStringSubmatch(err.Error()); m != nil {
			n, _ := strconv.Atoi(m[1])
			p.Errors = []Field{{fmt.Sprintf("body.tasks[%d]", n-1), k.title}}
		}
		if f := cmp.Or(scheduleField(err, k), stepField(err, k)); f != (Field{}) {
			p.Errors = []Field{f}
		}
		return p
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return timedOut.problem()
	}
	return internal.problem()
}

// place matches the parts of huma's locations that are shown: names of fields and indexes.
var place = regexp.MustCompile(`^[A-Za-z0-9_.\[\]-]{1,100}$`)

// ofHuma returns the problem for an error of huma. huma's own errors contain the refused values.
func ofHuma(e *huma.ErrorModel) *Problem {
	var fields []Field
	for _, d := range e.Errors {
		if !place.MatchString(d.Location) {
			d.Location = "body"
		}
		fields = append(fields, Field{d.Location, messageOf(d.Message)})
	}
	switch e.Status {
	case http.StatusBadRequest:
		return badJSON.problem()
	case http.StatusUnsupportedMediaType:
		return mediaType.problem()
	case http.StatusRequestEntityTooLarge:
		return bodyTooLarge.problem()
	case http.StatusUnprocessableEntity:
		return badRequest.problem(fields...)
	}
	return internal.problem()
}

// plainMessage matches huma's messages that consist of the schema's own words, such as: expected number >= 1.
var plainMessage = regexp.MustCompile(`^(?:unexpected property|unknown query parameter|` +
	`required (?:path|query|header) parameter is missing|expected required property [A-Za-z0-9_]+ to be present|` +
	`expected (?:string|number|integer|boolean|array|object)|expected string to be [A-Za-z0-9 -]+|` +
	`expected (?:number|length|array length|object with) (?:<|>|<=|>=|at most|at least) [0-9.e+]+(?: [a-z]+)?|` +
	`expected value to be one of "[A-Za-z0-9_, "-]+")$`)

// messageOf returns a message of huma, unless it could contain a value of the request.
func messageOf(message string) string {
	if plainMessage.MatchString(message) {
		return message
	}
	return "it has the wrong form or is outside its limits"
}

// seconds converts a number of seconds on the wire. What exceeds every limit stays so.
func seconds(s float64) time.Duration {
	const most = float64(1 << 62)
	return time.Duration(max(min(s*float64(time.Second), most), -most))
}
