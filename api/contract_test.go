package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// answered are the operations that answered a request of a test with success.
var answered = struct {
	sync.Mutex
	operations map[string]bool
}{operations: map[string]bool{}}

// described is the API as openapi.json describes it.
type described struct {
	doc    *openapi3.T
	router routers.Router
}

var contract = sync.OnceValues(func() (c described, err error) {
	text, err := os.ReadFile("../docs/openapi.json")
	if err == nil {
		c.doc, err = openapi3.NewLoader().LoadFromData(text)
	}
	if err != nil {
		return c, err
	}
	// In OpenAPI 3.1 a schema without a type allows null. The library has the rule of OpenAPI 3.0.
	for _, schema := range c.doc.Components.Schemas {
		for _, p := range schema.Value.Properties {
			if p.Ref == "" && p.Value.Type == nil {
				p.Value.Type = &openapi3.Types{"null", "boolean", "number", "string", "array", "object"}
			}
		}
	}
	c.router, err = legacy.NewRouter(c.doc)
	return c, err
})

// recorder keeps a response. Deadlines go to the connection.
type recorder struct {
	*httptest.ResponseRecorder
	w http.ResponseWriter
}

func (r recorder) Unwrap() http.ResponseWriter { return r.w }

// checked validates the requests that succeed, and all responses of a handler, against the description of the API.
func checked(t *testing.T, next http.Handler) http.Handler {
	c, err := contract()
	check.OK(t, err)
	openapi3filter.RegisterBodyDecoder("application/problem+json", openapi3filter.JSONBodyDecoder)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/openapi.json") {
			next.ServeHTTP(w, r)
			return
		}
		var sent journal
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &sent), r.Body}
		seen := recorder{httptest.NewRecorder(), w}
		next.ServeHTTP(seen, r)
		maps.Copy(w.Header(), seen.Header())
		w.WriteHeader(seen.Code)
		_, _ = w.Write(seen.Body.Bytes())
		route, params, err := c.router.FindRoute(r)
		if err != nil {
			return // a path of no operation
		}
		in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route,
			Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
		err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
			RequestValidationInput: in, Status: seen.Code, Header: seen.Header(),
			Body: io.NopCloser(bytes.NewReader(seen.Body.Bytes())),
		})
		if err != nil {
			t.Errorf("%s %s: the response is not as openapi.json describes it: %v", r.Method, r.URL.Path, err)
		}
		if seen.Code < 300 {
			r.Body = io.NopCloser(strings.NewReader(sent.String()))
			if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
				t.Errorf("%s %s: the request is not as openapi.json describes it: %v", r.Method, r.URL.Path, err)
			}
			succeeded(route.Operation)
		}
	})
}

// succeeded records that an operation answered a request with success.
func succeeded(op *openapi3.Operation) {
	answered.Lock()
	defer answered.Unlock()
	answered.operations[op.OperationID] = true
}

// unanswered lists the operations of a description that are not among those that answered with success.
func unanswered(doc *openapi3.T, answered map[string]bool) (out []string) {
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if !answered[op.OperationID] {
				out = append(out, method+" "+path)
			}
		}
	}
	return out
}

// TestOperationWithoutATestIsFound checks what TestMain does when all tests have run.
func TestOperationWithoutATestIsFound(t *testing.T) {
	t.Parallel()
	c, err := contract()
	check.OK(t, err)
	all := unanswered(c.doc, nil)
	some := unanswered(c.doc, map[string]bool{"enqueue": true, "settle": true})
	if len(all) < 30 || len(some) != len(all)-2 {
		t.Errorf("%d operations are described, and %d of them found if two have tests", len(all), len(some))
	}
}

// TestMain fails if an operation never answered a test with success, when all tests have run.
func TestMain(m *testing.M) {
	code := m.Run()
	some := func(a string) bool {
		return strings.HasPrefix(a, "-test.run=") || strings.HasPrefix(a, "-test.fuzz") || a == "-test.list"
	}
	if c, err := contract(); err == nil && code == 0 && !slices.ContainsFunc(os.Args, some) {
		for _, operation := range unanswered(c.doc, answered.operations) {
			fmt.Printf("no test gets a response of %s\n", operation)
			code = 1
		}
	}
	os.Exit(code)
}
