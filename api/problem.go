package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/wire"
)

// taskNumber finds which task of a batch an error is about.
var taskNumber = regexp.MustCompile(`(?:^|: )task (\d+) of \d+: `)

// problemOf returns the problem of an error. Of the error's text it uses only the number of a task.
func problemOf(err error) *wire.Problem {
	var own *wire.Problem
	if errors.As(err, &own) {
		return own
	}
	for _, k := range wire.Sentinels() {
		if !errors.Is(err, k.Err) {
			continue
		}
		p := k.Problem()
		if failed := (*dbq.Error)(nil); errors.As(err, &failed) {
			p.TaskID = failed.TaskID
		}
		if m := taskNumber.FindStringSubmatch(err.Error()); m != nil {
			n, _ := strconv.Atoi(m[1])
			p.Errors = []wire.Field{wire.At(fmt.Sprintf("body.tasks[%d]", n-1), k.Title)}
		}
		if f := cmp.Or(scheduleField(err, k), stepField(err, k)); f != (wire.Field{}) {
			p.Errors = []wire.Field{f}
		}
		return p
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return wire.TimedOut.Problem()
	}
	return wire.Internal.Problem()
}

// place matches the parts of huma's locations that are shown: names of fields and indexes.
var place = regexp.MustCompile(`^[A-Za-z0-9_.\[\]-]{1,100}$`)

// ofHuma returns the problem for an error of huma. huma's own errors contain the refused values.
func ofHuma(e *huma.ErrorModel) *wire.Problem {
	var fields []wire.Field
	for _, d := range e.Errors[:min(len(e.Errors), maxFields)] {
		fields = append(fields, shownField(wire.At(d.Location, d.Message)))
	}
	switch e.Status {
	case http.StatusBadRequest:
		return wire.BadJSON.Problem()
	case http.StatusUnsupportedMediaType:
		return wire.WrongMediaType.Problem()
	case http.StatusRequestEntityTooLarge:
		return wire.BodyTooLarge.Problem()
	case http.StatusUnprocessableEntity:
		return wire.BadRequest.Problem(fields...)
	}
	return wire.Internal.Problem()
}

// shownField returns a refused field without parts that could be a value of the request.
func shownField(f wire.Field) wire.Field {
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
