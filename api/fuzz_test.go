package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/wire"
)

// operations are the methods and paths of openapi.json, in order.
func operations(f *testing.F) (all []string) {
	f.Helper()
	c, err := contract()
	if err != nil {
		f.Fatal(err)
	}
	for path, item := range c.doc.Paths.Map() {
		for method := range item.Operations() {
			all = append(all, method+" "+path)
		}
	}
	slices.Sort(all)
	return all
}

// FuzzRequest sends any path, query and body to each operation: each answer is a success, or a problem of the request.
func FuzzRequest(f *testing.F) {
	all := operations(f)
	a, err := api.New(api.Config{
		Databases: map[string]*dbq.Client{"shop": dbqtest.New(f).Client}, Authenticator: admin,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(a.Drain)
	for i := range all {
		f.Add(uint16(i), "mail", "limit=5&state=CREATED", []byte(`{"tasks":[{"payload":{"a":1}}],"max":1,"event":"cancel"}`))
		f.Add(uint16(i), "01a217bb-bd5c-7e23-ab30-97e7ec3729c9", "after=x&before=&dry_run=true",
			[]byte(`{"settlements":[{"lease":"x","outcome":"complete"}],"filter":{"queue":"q"},"leases":["x"]}`))
	}
	f.Fuzz(func(t *testing.T, operation uint16, name, query string, body []byte) {
		method, path, _ := strings.Cut(all[int(operation)%len(all)], " ")
		path = strings.Replace(path, "{database}", "shop", 1)
		for _, parameter := range []string{"{", "{"} { // a path has up to two more
			if from, to := strings.Index(path, parameter), strings.Index(path, "}"); from >= 0 && to > from {
				path = path[:from] + name + path[to+1:]
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // some operations wait for what the request says
		defer cancel()
		r := (&http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{},
			Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Host: "localhost",
			RemoteAddr: "127.0.0.1:1", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
		r.Header.Set("Content-Type", "application/json")
		got := httptest.NewRecorder()
		a.ServeHTTP(got, r)
		if got.Code >= 500 && ctx.Err() == nil {
			t.Errorf("%s %q?%s %q: %d %s", method, path, query, body, got.Code, got.Body)
		}
		var p wire.Problem
		if got.Code >= 400 && (json.Unmarshal(got.Body.Bytes(), &p) != nil || p.Status != got.Code) {
			t.Errorf("%s %q?%s %q: %d is no problem: %s", method, path, query, body, got.Code, got.Body)
		}
	})
}
