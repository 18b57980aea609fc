package api_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/dbqtest"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

// TestOpenAPIIsCheckedIn compares the description of the API with docs/openapi.json. After a change, run
// go test ./api -run OpenAPI -update.
func TestOpenAPIIsCheckedIn(t *testing.T) {
	t.Parallel()
	a, err := api.New(api.Config{Databases: map[string]*dbq.Client{"shop": dbqtest.New(t).Client}, Authenticator: admin})
	if err != nil {
		t.Fatal(err)
	}
	const file = "../docs/openapi.json"
	now := append(a.OpenAPI(), '\n')
	if *update {
		if err := os.WriteFile(file, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if checkedIn, err := os.ReadFile(file); err != nil || !bytes.Equal(checkedIn, now) {
		t.Errorf("%s is not what the code says (%v): run go test ./api -run OpenAPI -update", file, err)
	}
}
