package console_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/dbqtest"
	_ "github.com/dbq-go/dbq/dialect/mysql"
	_ "github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

// servers has the DSN for each test, by its name, that runs on a server instead of a SQLite file.
var servers sync.Map

// newSite returns a console on empty tables of its own: a file, or the server of the test.
func newSite(t *testing.T, a auth.Authenticator) *site {
	t.Helper()
	return serve(t, openClient(t), a, "")
}

func openClient(t *testing.T) *dbq.Client {
	t.Helper()
	dsn, ok := servers.Load(t.Name())
	if !ok {
		return dbqtest.New(t).Client
	}
	prefix := fmt.Sprintf("con%x_", uuid.New().ID())
	c, err := dbq.Open(t.Context(), dsn.(string), dbq.WithPrefix(prefix), dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() {
		if err := access.Of(c).Store.DropTables(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("left behind: %v", err)
		}
		c.Close()
	})
	return c
}

// TestServers runs those tests of the pages on servers that depend on the engine. Each engine without a DSN is skipped.
func TestServers(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"POSTGRES18", "MARIADB118", "MYSQL97"} {
		t.Run(strings.ToLower(engine), func(t *testing.T) {
			dsn := os.Getenv("DBQ_TEST_" + engine + "_DSN")
			if dsn == "" {
				t.Skipf("DBQ_TEST_%s_DSN is not set", engine)
			}
			for name, law := range map[string]func(*testing.T){
				"ListFiltersAndPages":                        TestListFiltersAndPages,
				"BulkActionCountsThenChanges":                TestBulkActionCountsThenChanges,
				"SchedulesWorkflowsWorkersAndAuditHavePages": TestSchedulesWorkflowsWorkersAndAuditHavePages,
				"TasksAreFoundByTextsOfErrorsAndPayloads":    TestTasksAreFoundByTextsOfErrorsAndPayloads,
				"ServerPageShowsTheConformanceReport":        TestServerPageShowsTheConformanceReport,
				"KeysShowWhoWaitsAndWhy":                     TestKeysShowWhoWaitsAndWhy,
				"OverviewShowsManyQueues":                    TestOverviewShowsManyQueues,
				"SearchIsBoundedAndGoesOn":                   TestSearchIsBoundedAndGoesOn,
				"PoisonedTasksAreGroupedAndRedriven":         TestPoisonedTasksAreGroupedAndRedriven,
				"ScheduleIsCreatedAndEditedByForm":           TestScheduleIsCreatedAndEditedByForm,
			} {
				t.Run(name, func(t *testing.T) {
					servers.Store(t.Name(), dsn)
					law(t)
				})
			}
		})
	}
}
