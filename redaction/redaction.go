// Package redaction hides parts of tasks from those who read them: values of payloads, headers, results and progress
// that paths such as $.card.number select, and the texts of errors.
package redaction

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/jsonpath"
)

// Rule hides values of tasks from callers that read them. It applies to the payload, headers, result and progress
// of the tasks that Database, Queue and Kind select; an empty one selects all.
//
// Each value that one of Paths selects is replaced by "[redacted]", and all other bytes stay as they are. What is not a
// JSON object or array is replaced as a whole, because no path selects a part of it. So are the texts of errors, which
// often quote the payload, in a queue of which any kind has a Rule.
//
// A checkout returns the task unchanged: a worker needs it. A Rule does not apply to references, keys and kinds.
type Rule struct {
	Database string `json:"database,omitempty" yaml:"database"`
	Queue    string `json:"queue,omitempty" yaml:"queue"`
	Kind     string `json:"kind,omitempty" yaml:"kind"`
	// Paths are in a subset of RFC 9535: $, and then any number of .name, ['name'], [0], [*] and .*, each of which may
	// begin with two dots, as in $..password, to select at any depth. $ alone hides everything.
	Paths []string `json:"paths" yaml:"paths"`
}

// redacted replaces hidden values.
const redacted = "[redacted]"

// rule is a parsed Rule.
type rule struct {
	queue, kind string
	paths       []jsonpath.Path
}

// Check returns an error for a Rule with an invalid path, or without any.
func (r Rule) Check() error {
	_, err := r.parse()
	return err
}

func (r Rule) parse() (rule, error) {
	out := rule{queue: r.Queue, kind: r.Kind}
	for _, text := range r.Paths {
		p, err := jsonpath.Parse(text)
		if err != nil {
			return out, err
		}
		out.paths = append(out.paths, p)
	}
	if len(out.paths) == 0 {
		return out, errNoPaths
	}
	return out, nil
}

var errNoPaths = errors.New("it has no paths; $ hides everything")

// Redactor hides the values that Rules select in the tasks of one database. The zero value hides nothing. It is safe
// for concurrent use.
type Redactor struct{ rules []rule }

// New returns the Redactor of each database, by name. It returns an error for an invalid rule, or one for a database
// that is not listed.
func New(databases []string, rules []Rule) (map[string]Redactor, error) {
	out := map[string]Redactor{}
	for i, r := range rules {
		parsed, err := r.parse()
		if err == nil && r.Database != "" && !slices.Contains(databases, r.Database) {
			err = errors.New("its database is not one of those that are served")
		}
		if err != nil {
			return nil, fmt.Errorf("redaction %d: %w", i+1, err)
		}
		for _, name := range databases {
			if r.Database == "" || r.Database == name {
				out[name] = Redactor{append(out[name].rules, parsed)}
			}
		}
	}
	return out, nil
}

// pathsFor returns the paths for a task of a queue and a kind. Without any, nothing is hidden.
func (r Redactor) pathsFor(queue, kind string) (out []jsonpath.Path) {
	for _, x := range r.rules {
		if (x.queue == "" || x.queue == queue) && (x.kind == "" || x.kind == kind) {
			out = append(out, x.paths...)
		}
	}
	return out
}

// hidesErrors reports whether the texts of errors of a queue are hidden.
func (r Redactor) hidesErrors(queue string) bool {
	return slices.ContainsFunc(r.rules, func(x rule) bool { return x.queue == "" || x.queue == queue })
}

// Error returns the text of an error of a queue as it is shown.
func (r Redactor) Error(queue, text string) string {
	if text != "" && r.hidesErrors(queue) {
		return redacted
	}
	return text
}

// Task hides the values that callers that read a task may not see, and reports whether there are rules for this task.
func (r Redactor) Task(t *dbq.Task) bool {
	if len(r.rules) == 0 {
		return false
	}
	paths := r.pathsFor(t.Queue, t.Kind)
	var notice dbq.PoisonNotice
	if t.Kind == dbq.KindPoison && json.Unmarshal(t.Payload, &notice) == nil && r.hidesErrors(notice.Queue) {
		paths = append(paths, noticedError)
	}
	hidesErrors := r.hidesErrors(t.Queue)
	if len(paths) > 0 {
		t.Payload, t.Progress = redactedBytes(t.Payload, paths), redactedBytes(t.Progress, paths)
		t.Headers = redactedHeaders(t.Headers, paths)
	}
	switch {
	case len(t.Result) == 0:
	case t.State != dbq.StateCompleted && hidesErrors:
		t.Result = []byte(redacted)
	case len(paths) > 0:
		t.Result = redactedBytes(t.Result, paths)
	}
	return len(paths) > 0 || hidesErrors
}

// noticedError is the error in a dbq.PoisonNotice.
var noticedError, _ = jsonpath.Parse("$.error")

// redactedBytes returns a text without the values that the paths select. An empty one contains nothing to hide.
func redactedBytes(b []byte, paths []jsonpath.Path) []byte {
	if len(b) == 0 {
		return b
	}
	out, ok := jsonpath.Replace(b, paths, []byte(`"`+redacted+`"`))
	if !ok {
		return []byte(redacted)
	}
	return out
}

// redactedHeaders is redactedBytes for headers, which are members of an object.
func redactedHeaders(headers map[string]string, paths []jsonpath.Path) (out map[string]string) {
	if len(headers) == 0 {
		return headers
	}
	b, err := json.Marshal(headers)
	if err == nil {
		err = json.Unmarshal(redactedBytes(b, paths), &out)
	}
	if err != nil { // all of it is hidden
		out = map[string]string{}
		for name := range headers {
			out[name] = redacted
		}
	}
	return out
}
