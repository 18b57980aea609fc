package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

// TestOpenAPIIsCheckedIn compares the description of the API with docs/openapi.json. After a change, run
// go test ./api -run OpenAPI -update.
func TestOpenAPIIsCheckedIn(t *testing.T) {
	t.Parallel()
	a, err := api.New(api.Config{Databases: map[string]*dbq.Client{"shop": dbqtest.New(t).Client}, Authenticator: admin})
	check.OK(t, err)
	var described any
	d := json.NewDecoder(bytes.NewReader(a.OpenAPI()))
	d.UseNumber()
	check.OK(t, d.Decode(&described))
	const file = "../docs/openapi.json"
	now := laidOut(described, "") + "\n"
	if *update {
		check.OK(t, os.WriteFile(file, []byte(now), 0o644))
	}
	if checkedIn, err := os.ReadFile(file); err != nil || string(checkedIn) != now {
		t.Errorf("%s is not what the code says (%v): run go test ./api -run OpenAPI -update", file, err)
	}
}

// laidOut returns JSON in which what fits on a line is on one line.
func laidOut(v any, indent string) string {
	deeper, ends, parts := indent+"  ", "[]", []string{}
	switch v := v.(type) {
	case map[string]any:
		ends = "{}"
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, fmt.Sprintf("%q: %s", name, laidOut(v[name], deeper)))
		}
	case []any:
		for _, one := range v {
			parts = append(parts, laidOut(one, deeper))
		}
	default:
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // it was decoded
		}
		return string(text)
	}
	if line := strings.Join(parts, ", "); len(indent)+len(line) <= 100 && !strings.Contains(line, "\n") {
		return ends[:1] + line + ends[1:]
	}
	return ends[:1] + "\n" + deeper + strings.Join(parts, ",\n"+deeper) + "\n" + indent + ends[1:]
}
