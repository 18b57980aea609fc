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
	"github.com/dbq-go/dbq/internal/problem"
	"github.com/google/uuid"
)

// ProblemType is the prefix of Problem.Type.
const ProblemType = problem.Prefix

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

const problemJSON = problem.MediaType

// kind is a row of the table of problems.
type kind problem.Kind

// Problems of HTTP alone, and their kinds in the table.
var (
	noRoute         = kind(problem.NoRoute)
	noMethod        = kind(problem.NoMethod)
	noDatabase      = kind(problem.NoDatabase)
	unauthenticated = kind(problem.Unauthenticated)
	unchecked       = kind(problem.Unchecked)
	forbidden       = kind(problem.Forbidden)
	crossOrigin     = kind(problem.CrossOrigin)
	bodyTooLarge    = kind(problem.BodyTooLarge)
	bodyTimeout     = kind(problem.BodyTimeout)
	badBody         = kind(problem.BadBody)
	mediaType       = kind(problem.WrongMediaType)
	badJSON         = kind(problem.BadJSON)
	badRequest      = kind(problem.BadRequest)
	badLease        = kind(problem.BadLease)
	busy            = kind(problem.Busy)
	tooMany         = kind(problem.TooMany)
	timedOut        = kind(problem.TimedOut)
	internal        = kind(problem.Internal)
)

// problem returns a problem of this kind.
func (k kind) problem(fields ...Field) *Problem {
	return &Problem{
		Type: ProblemType + k.Name, Title: k.Title, Status: k.Status, Detail: k.Detail, Errors: fields, retry: k.Retry,
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
	for _, k := range problem.Sentinels() {
		if !errors.Is(err, k.Err) {
			continue
		}
		p := kind(k).problem()
		var failed *dbq.Error
		if errors.As(err, &failed) && failed.Task != uuid.Nil {
			p.Task = failed.Task.String()
		}
		if m := taskNumber.FindStringSubmatch(err.Error()); m != nil {
			n, _ := strconv.Atoi(m[1])
			p.Errors = []Field{{fmt.Sprintf("body.tasks[%d]", n-1), k.Title}}
		}
		if f := cmp.Or(scheduleField(err, kind(k)), stepField(err, kind(k))); f != (Field{}) {
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
	for _, d := range e.Errors[:min(len(e.Errors), maxFields)] {
		fields = append(fields, shownField(Field{d.Location, d.Message}))
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

// shownField returns a refused field without what could be a value of the request.
func shownField(f Field) Field {
	if !place.MatchString(f.Location) {
		f.Location = "body"
	}
	if !plainMessage.MatchString(f.Message) {
		f.Message = "it has the wrong form or is outside its limits"
	}
	return f
}

// plainMessage matches the messages that consist of the schema's own words, such as: expected number >= 1.
var plainMessage = regexp.MustCompile(`^(?:unexpected property|the field is repeated|unknown query parameter|` +
	`a value is null; leave the field out if it is to have none|the body has more than [0-9]+ values|` +
	`required (?:path|query|header) parameter is missing|expected required property [A-Za-z0-9_]+ to be present|` +
	`expected (?:string|number|integer|boolean|array|object)|expected string to be [A-Za-z0-9 -]+|` +
	`expected (?:number|length|array length|object with) (?:<|>|<=|>=|at most|at least) [0-9.e+]+(?: [a-z]+)?|` +
	`expected value to be one of "[A-Za-z0-9_, "-]+")$`)

// seconds converts a number of seconds on the wire. What exceeds every limit stays so.
func seconds(s float64) time.Duration {
	const most = float64(1 << 62)
	return time.Duration(max(min(s*float64(time.Second), most), -most))
}
