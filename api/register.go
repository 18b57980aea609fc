package api

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// This file is the only one that registers operations with huma. Handlers are plain functions.

//go:embed fields.txt
var fieldsText string

// The paths.
const (
	pathDatabase = "/v1/db/{database}"
	pathQueue    = pathDatabase + "/queues/{queue}"
	pathTask     = pathDatabase + "/tasks/{id}"
	pathSchedule = pathDatabase + "/schedules/{schedule}"
	pathWorkflow = pathDatabase + "/workflows/{id}"
)

// register returns the handler of all paths, and the description of the API.
func (a *API) register() (http.Handler, []byte, error) {
	mux := &router{ServeMux: http.NewServeMux(), api: a, routes: map[string]*route{}}
	a.routes = mux.routes
	config := huma.DefaultConfig("dbq", "1")
	config.Info.Description = "The HTTP API of dbq, a durable task queue. docs/http.md explains it with examples."
	config.CreateHooks = nil // no $schema in responses
	config.DocsPath, config.OpenAPIPath, config.SchemasPath = "", "", ""
	config.RejectUnknownQueryParameters = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer"}}
	config.Security = []map[string][]string{{"bearer": {}}}
	config.Transformers = []huma.Transformer{func(ctx huma.Context, _ string, v any) (any, error) {
		return transformed(ctx, v), nil
	}}
	format := huma.Format{Marshal: writeJSON, Unmarshal: json.Unmarshal}
	config.Formats = map[string]huma.Format{"application/json": format, "json": format}
	describeTypes(config.Components.Schemas)
	h := humago.New(mux, config)
	problems := problemResponse(h)

	r := registry{a, h, mux, problems}
	add(r, "list-databases", auth.Read, "GET", "/v1/databases", "List the databases", a.listDatabases)
	add(r, "enqueue", auth.Enqueue, "POST", pathQueue+"/tasks", "Enqueue a task", a.enqueue, http.StatusCreated)
	add(r, "enqueue-many", auth.Enqueue, "POST", pathQueue+"/tasks/batch", "Enqueue many tasks in one transaction",
		a.enqueueMany)
	add(r, "checkout", auth.Work, "POST", pathQueue+"/checkout", "Lease due tasks, and wait for them", a.checkout)
	add(r, "extend", auth.Work, "POST", pathQueue+"/extend", "Extend leases, and store progress", a.extend)
	add(r, "settle", auth.Work, "POST", pathQueue+"/settle", "End attempts", a.settle)
	add(r, "list-tasks", auth.Read, "GET", pathDatabase+"/tasks", "List tasks, without their payloads", a.list)
	add(r, "get-task", auth.Read, "GET", pathTask, "Read a task", a.get)
	add(r, "wait-for-task", auth.Read, "GET", pathTask+"/wait", "Wait until a task has ended", a.wait)
	add(r, "list-attempts", auth.Read, "GET", pathTask+"/attempts", "List the ended attempts of a task", a.attempts)
	add(r, "stats", auth.Read, "GET", pathDatabase+"/stats", "Count the tasks of each queue by state", a.stats)
	add(r, "why", auth.Read, "GET", pathQueue+"/why", "Find out why the tasks of a queue wait", reading(a, why))
	add(r, "series", auth.Read, "GET", pathDatabase+"/series", "Read what happened in queues over time", a.series)
	add(r, "operate", auth.Operate, "POST", pathTask+"/{event}", "Apply an operator's event to a task", a.operate)
	add(r, "operate-many", auth.Operate, "POST", pathDatabase+"/operate/{event}", "Apply it to many tasks",
		a.operateMany)
	add(r, "list-queues", auth.Read, "GET", pathDatabase+"/queues", "List queues with a pause, settings or limits",
		a.listQueues)
	add(r, "pause-queue", auth.Operate, "POST", pathQueue+"/pause", "Stop a queue from handing out tasks",
		a.pause((*admin.Admin).PauseQueue))
	add(r, "resume-queue", auth.Operate, "POST", pathQueue+"/resume", "End the pause of a queue",
		a.pause((*admin.Admin).ResumeQueue))
	add(r, "get-settings", auth.Read, "GET", pathQueue+"/settings", "Read the settings of a queue",
		reading(a, (*admin.Admin).QueueSettings))
	add(r, "change-settings", auth.Configure, "PATCH", pathQueue+"/settings", "Change settings of a queue", a.configure)
	add(r, "get-limits", auth.Read, "GET", pathQueue+"/limits", "Read the limits of a queue",
		reading(a, (*admin.Admin).QueueLimits))
	add(r, "change-limits", auth.Configure, "PATCH", pathQueue+"/limits", "Change limits of a queue",
		configuring(a, (*admin.Admin).ConfigureLimits))
	add(r, "reset-limits", auth.Configure, "DELETE", pathQueue+"/limits",
		"Reset the limits of a queue to those that its program declares", a.resetLimits)
	add(r, "list-workers", auth.Read, "GET", pathDatabase+"/workers", "List workers", a.listWorkers)
	add(r, "command-worker", auth.Configure, "POST", pathDatabase+"/workers/command", "Pause, resume or stop a worker",
		a.commandWorker)
	add(r, "list-schedules", auth.Read, "GET", pathDatabase+"/schedules", "List the schedules", a.listSchedules)
	add(r, "get-schedule", auth.Read, "GET", pathSchedule, "Read a schedule, with its payload", a.readSchedule)
	add(r, "put-schedule", auth.Configure, "PUT", pathSchedule, "Create or replace a schedule",
		a.putSchedule, http.StatusCreated)
	add(r, "change-schedule", auth.Operate, "POST", pathSchedule+"/{change}",
		"Pause, resume, run or delete a schedule", a.changeSchedule)
	add(r, "schedule-times", auth.Read, "GET", pathSchedule+"/times", "List the next times of a schedule",
		a.scheduleTimes)
	add(r, "preview-schedule", auth.Read, "POST", pathDatabase+"/schedules/preview",
		"List the next times of a schedule that is not stored", a.previewTimes)
	add(r, "enqueue-workflow", auth.Enqueue, "POST", pathDatabase+"/workflows", "Enqueue a workflow in one transaction",
		a.enqueueWorkflow, http.StatusCreated)
	add(r, "get-workflow", auth.Read, "GET", pathWorkflow, "Read the tasks of a workflow", a.readWorkflow)
	add(r, "change-workflow", auth.Operate, "POST", pathWorkflow+"/{change}", "Cancel or retry a workflow",
		a.changeWorkflow)
	add(r, "signal-workflow", auth.Work, "POST", pathWorkflow+"/signal", "Complete a step that waits for a signal",
		a.signalWorkflow)
	draw := r.operation("draw-workflow", http.MethodGet, pathWorkflow+"/graph", "Draw a workflow as a Mermaid flowchart")
	draw.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK),
		Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}}
	register(r, draw, auth.Read, a.drawWorkflow)
	add(r, "list-audit", auth.Administer, "GET", pathDatabase+"/audit", "List the changes of operators", a.listAudit)

	spec, err := describe(h.OpenAPI())
	if err != nil {
		return nil, nil, err
	}
	mux.ServeMux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(spec) // the caller may be gone
	})
	handler := a.limited(attributed(a.routed(mux.ServeMux)))
	return a.observed(auth.Protect(a.cfg.Authenticator, handler, a.unauthorized)), spec, nil
}

// describeTypes registers the types of other packages whose JSON their Go types do not show.
func describeTypes(r huma.Registry) {
	r.RegisterTypeAlias(reflect.TypeFor[uuid.UUID](), reflect.TypeFor[idText]())
	r.RegisterTypeAlias(reflect.TypeFor[dbq.State](), reflect.TypeFor[stateText]())
	r.RegisterTypeAlias(reflect.TypeFor[state.Event](), reflect.TypeFor[eventText]())
	r.RegisterTypeAlias(reflect.TypeFor[duration.Seconds](), reflect.TypeFor[float64]())
	r.RegisterTypeAlias(reflect.TypeFor[admin.QueueSettings](), reflect.TypeFor[control.Settings]())
	r.RegisterTypeAlias(reflect.TypeFor[patch[admin.QueueSettings]](), reflect.TypeFor[control.Settings]())
	r.RegisterTypeAlias(reflect.TypeFor[admin.QueueLimits](), reflect.TypeFor[Limits]())
	r.RegisterTypeAlias(reflect.TypeFor[patch[admin.QueueLimits]](), reflect.TypeFor[Limits]())
}

// Limits are the limits of a queue, as the description names them.
type Limits store.LimitFields

type idText struct{}

// Schema returns the schema of a UUID.
func (idText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "uuid"}
}

type stateText struct{}

// Schema returns the schema of a state.
func (stateText) Schema(huma.Registry) *huma.Schema {
	out := &huma.Schema{Type: huma.TypeString}
	for _, s := range append(state.All(), state.None) {
		text, _ := s.MarshalText()
		out.Enum = append(out.Enum, string(text))
	}
	return out
}

type eventText struct{}

// Schema returns that of an operator's event.
func (eventText) Schema(huma.Registry) *huma.Schema {
	out := &huma.Schema{Type: huma.TypeString}
	for _, t := range state.ByOperator() {
		out.Enum = append(out.Enum, string(t.Event))
	}
	slices.SortFunc(out.Enum, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return out
}

// registry registers operations.
type registry struct {
	api      *API
	huma     huma.API
	mux      *router
	problems *huma.Response
}

// add registers an operation. A caller that may not apply the action to any queue that the request can be about is
// refused before the body is read; the handler checks the rest. Its error is answered as a problem.
func add[I, O any](
	r registry, id string, action auth.Action, method, path, summary string, f func(context.Context, *I) (*O, error),
	status ...int,
) {
	op := r.operation(id, method, path, summary)
	if len(status) > 0 {
		op.DefaultStatus = status[0]
	}
	register(r, op, action, f)
	// huma documents one status: these operations answer 200 too.
	if op.DefaultStatus == http.StatusCreated {
		again := *op.Responses["201"]
		if again.Description = "Nothing was added"; method == http.MethodPut {
			again.Description = "It was replaced"
		}
		op.Responses["200"] = &again
	}
}

// operation returns an operation without a handler.
func (r registry) operation(id, method, path, summary string) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, MaxBodyBytes: -1, BodyReadTimeout: -1,
		SkipValidateBody: true, // a bodyCheck has done it
		Responses:        map[string]*huma.Response{"default": r.problems},
	}
}

func register[I, O any](
	r registry, op huma.Operation, action auth.Action, f func(context.Context, *I) (*O, error),
) {
	huma.Register(r.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := f(ctx, in)
		if err == nil {
			return out, nil
		}
		p := problemOf(err)
		r.api.logFailure(ctx, p, err)
		return nil, p
	})
	to := r.mux.routes[op.Method+" "+op.Path]
	to.action = action
	item := r.huma.OpenAPI().Paths[op.Path]
	for _, with := range []*huma.Operation{item.Post, item.Put, item.Patch} {
		if with != nil && with.OperationID == op.OperationID && with.RequestBody != nil {
			to.body = bodyCheck{r.huma.OpenAPI().Components.Schemas, with.RequestBody.Content["application/json"].Schema}
		}
	}
}

// writeJSON encodes a response. If that fails, nothing has been sent, and the caller gets a problem.
func writeJSON(w io.Writer, v any) error {
	if out, ok := v.(CheckedOutBody); ok {
		out.write(w)
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("the response cannot be encoded: %w", err))
	}
	_, _ = w.Write(append(text, '\n')) // the caller may be gone
	return nil
}

// transformed completes a response: problems get the id of the request, and huma's own errors become problems.
func transformed(ctx huma.Context, v any) any {
	var p *wire.Problem
	switch e := v.(type) {
	case *wire.Problem:
		p = e
	case *huma.ErrorModel:
		p = ofHuma(e)
	case huma.StatusError:
		p = ofHuma(&huma.ErrorModel{Status: e.GetStatus()})
	default:
		return v
	}
	p.RequestID = requestID(ctx.Context())
	return p
}

// problemResponse describes the response to a request that fails.
func problemResponse(h huma.API) *huma.Response {
	schema := huma.SchemaFromType(h.OpenAPI().Components.Schemas, reflect.TypeFor[wire.Problem]())
	return &huma.Response{
		Description: "A problem", Content: map[string]*huma.MediaType{wire.MediaType: {Schema: schema}},
	}
}

// describe returns the description as JSON, with the texts of fields.txt.
func describe(spec *huma.OpenAPI) ([]byte, error) {
	schemas := spec.Components.Schemas.Map()
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	texts := fieldTexts()
	var missing []string
	for name, schema := range schemas {
		for field, property := range schema.Properties {
			if property.Description = textOf(texts, name, field); property.Description == "" {
				missing = append(missing, name+"."+field)
			}
		}
	}
	for _, item := range spec.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				own := texts[op.OperationID+"."+p.Name]
				if p.Description = cmp.Or(own, texts[p.In+"."+p.Name]); p.Description == "" {
					missing = append(missing, p.In+"."+p.Name)
				}
			}
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, fmt.Errorf("api: fields.txt has no text for %v", slices.Compact(missing))
	}
	return json.Marshal(spec)
}

// textOf returns the text of a field. Types that embed another one have its fields.
func textOf(texts map[string]string, schema, field string) string {
	if text := texts[schema+"."+field]; text != "" {
		return text
	}
	embedded := map[string]string{
		"LeasedTask": "Task", "Schedule": "Task", "NewSchedule": "NewTask", "NewStep": "NewTask",
		"PreviewTimesBody": "NewSchedule",
	}
	if text := texts[embedded[schema]+"."+field]; text != "" {
		return text
	}
	if schema == "Filter" { // it has the fields of a query
		return texts["query."+field]
	}
	return ""
}

// fieldTexts reads fields.txt: the name of a field on a line, and its text on the lines below, which are indented.
func fieldTexts() map[string]string {
	texts, name := map[string]string{}, ""
	for l := range strings.Lines(fieldsText) {
		if l = strings.TrimRight(l, "\n"); !strings.HasPrefix(l, "  ") {
			name = l
			continue
		}
		texts[name] = strings.TrimSpace(texts[name] + " " + strings.TrimSpace(l))
	}
	return texts
}
