package api_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dbqtest"
	_ "github.com/dbq-go/dbq/dialect/mysql"
	_ "github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

// servers has the DSN for each test, by its name, that runs on a server instead of a SQLite file.
var servers sync.Map

// openClient returns a client on empty tables of its own: a file, or the server of the test.
func openClient(t *testing.T) *dbq.Client {
	t.Helper()
	dsn, ok := servers.Load(t.Name())
	if !ok {
		return dbqtest.New(t).Client
	}
	c, _ := ownTables(t, dsn.(string))
	return c
}

// ownTables returns a client on a server, on tables of its own with a prefix.
func ownTables(t *testing.T, dsn string) (c *dbq.Client, prefix string) {
	t.Helper()
	prefix = fmt.Sprintf("api%x_", uuid.New().ID())
	c = openServer(t, dsn, prefix)
	t.Cleanup(func() {
		if err := access.Of(c).Store.DropTables(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("left behind: %v", err)
		}
		c.Close()
	})
	return c, prefix
}

func openServer(t *testing.T, dsn, prefix string) *dbq.Client {
	t.Helper()
	c, err := dbq.Open(t.Context(), dsn, dbq.WithPrefix(prefix), dbq.WithMigrate())
	check.OK(t, err)
	return c
}

// TestServers runs those tests of the API on servers that depend on the engine: checkouts and waits, streams, leases,
// outcomes, and the statements of lists, filters and settings. Each engine without a DSN is skipped.
func TestServers(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"POSTGRES18", "MARIADB118"} {
		t.Run(strings.ToLower(engine), func(t *testing.T) {
			dsn := os.Getenv("DBQ_TEST_" + engine + "_DSN")
			if dsn == "" {
				t.Skipf("DBQ_TEST_%s_DSN is not set", engine)
			}
			laws := map[string]func(*testing.T){
				"TaskIsEnqueuedCheckedOutExtendedAndSettled": TestTaskIsEnqueuedCheckedOutExtendedAndSettled,
				"BatchIsRepeatable":                          TestBatchIsRepeatable,
				"EveryOutcomeIsStored":                       TestEveryOutcomeIsStored,
				"CheckoutWaitsForATask":                      TestCheckoutWaitsForATask,
				"TasksOfADisconnectedCallerReturn":           TestTasksOfADisconnectedCallerReturn,
				"ForeignLeasesAreRefused":                    TestForeignLeasesAreRefused,
				"EveryEventOfOperatorsIsAPath":               TestEveryEventOfOperatorsIsAPath,
				"ManyTasksAreChangedByAFilter":               TestManyTasksAreChangedByAFilter,
				"QueuesAreConfigured":                        TestQueuesAreConfigured,
				"SchedulesAndWorkflowsAreShown":              TestSchedulesAndWorkflowsAreShown,
				"RunReportsWhatIsDoneOverHTTP":               TestRunReportsWhatIsDoneOverHTTP,
				"InvalidSchedulesAreProblems":                TestInvalidSchedulesAreProblems,
				"ScheduleOverwritesNoChangeOfOthers":         TestScheduleOverwritesNoChangeOfOthers,
				"WorkflowIsEnqueuedOnce":                     TestWorkflowIsEnqueuedOnce,
				"AuditIsListedInPages":                       TestAuditIsListedInPages,
			}
			for name, law := range laws {
				t.Run(name, func(t *testing.T) {
					if testing.Short() && !slices.Contains([]string{"BatchIsRepeatable",
						"TaskIsEnqueuedCheckedOutExtendedAndSettled", "TasksOfADisconnectedCallerReturn"}, name) {
						t.Skip("-short: SQLite runs it")
					}
					servers.Store(t.Name(), dsn)
					law(t)
				})
			}
			t.Run("TaskOfAnotherProcessEndsAWait", func(t *testing.T) {
				t.Parallel()
				taskOfAnotherProcessEndsAWait(t, dsn)
			})
		})
	}
}

// taskOfAnotherProcessEndsAWait enqueues with a client of its own, as another process does: on PostgreSQL the server is
// notified, and elsewhere it polls.
func taskOfAnotherProcessEndsAWait(t *testing.T, dsn string) {
	c, prefix := ownTables(t, dsn)
	s := serve(t, c)
	apart, postgres := dsn, strings.HasPrefix(dsn, "postgres")
	if postgres { // dbq takes another spelling of a DSN for another process
		base, settings, _ := strings.Cut(dsn, "?")
		apart = base + "?application_name=apart&" + settings
	}
	other := openServer(t, apart, prefix)
	defer other.Close()
	answered := make(chan string, 1)
	go func() {
		_, text := s.send("POST", mail+"/checkout", `{"wait_seconds":30}`)
		answered <- text
	}()
	check.Eventually(t, "the server listens for notifications while a checkout waits", func() bool {
		return !postgres || c.Stats().Listening
	})
	begin := time.Now()
	id, err := other.Queue("mail").Enqueue(t.Context(), dbq.NewTask{})
	check.OK(t, err)
	if got := <-answered; !strings.Contains(got, id.String()) {
		t.Errorf("got %v, want the task %v", got, id)
	}
	if waited := time.Since(begin); waited > 10*time.Second {
		t.Errorf("the checkout waited for %v after the task was enqueued", waited)
	}
}
