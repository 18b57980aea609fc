package acme_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/dbq-go/dbq/conformance"
	_ "github.com/dbq-go/dbq/examples/acme"
)

func TestMain(m *testing.M) {
	conformance.Child()                // lets cases start worker processes of this very program
	_ = flag.Set("test.parallel", "8") // the default of go test -parallel: cases mostly wait
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		// A server's DSN would come from the environment, and be the same for each case.
		DSN:       func(dir string) string { return "acme:" + filepath.Join(dir, "queue.db") },
		Processes: true,
	})
}
