package engines

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/dsnredact"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	dockerTimeout = 5 * time.Second // for Docker to answer at all
	startTimeout  = 3 * time.Minute // for an image to be fetched and a server to come up
	stopTimeout   = time.Minute
	pollInterval  = 100 * time.Millisecond
)

// variable returns the environment variable of a target's DSN.
func (t target) variable() string { return "DBQ_TEST_" + strings.ToUpper(t.name) + "_DSN" }

// required reports whether a skip is a failure.
func (t target) required() bool { return slices.Contains(listed("DBQ_TEST_REQUIRE"), t.name) }

// whole reports whether all cases run on the target, however short the run.
func (t target) whole() bool { return slices.Contains(listed("DBQ_TEST_WHOLE"), t.name) }

// listed are the names in a variable's list of targets.
func listed(variable string) []string {
	return strings.FieldsFunc(os.Getenv(variable), func(r rune) bool { return r == ',' || r == ' ' })
}

// checkLists reports a name that no target has: go test -run TestConformance/NAME would pass without a test.
func checkLists() error {
	for _, variable := range []string{"DBQ_TEST_REQUIRE", "DBQ_TEST_WHOLE"} {
		for _, name := range listed(variable) {
			if !slices.ContainsFunc(targets, func(t target) bool { return t.name == name }) {
				return fmt.Errorf("%s: there is no target %q", variable, name)
			}
		}
	}
	return nil
}

// A server is where a target's cases run.
type server struct {
	dsn    func(dir string) string
	origin string       // for the summary
	stop   func() error // nil when there is nothing to stop
}

// skipped is why a target cannot be had, and how to get it.
type skipped struct{ reason string }

func (s skipped) Error() string { return s.reason }

// find finds a target's server: the one in the environment, else a container. What cannot be had is a skipped error.
func find(ctx context.Context, t target) (server, error) {
	if t.file != nil {
		return server{dsn: t.file, origin: "a file"}, nil
	}
	dsn := os.Getenv(t.variable())
	if onlyContainers := os.Getenv("DBQ_TEST_CONTAINERS") == "only"; dsn != "" && (!onlyContainers || t.image == "") {
		return server{dsn: func(string) string { return dsn }, origin: "the server of " + t.variable()}, nil
	}
	cure := "set " + t.variable()
	switch {
	case t.image == "":
		return server{}, skipped{"no DSN: " + cure}
	case os.Getenv("DBQ_TEST_CONTAINERS") == "no":
		return server{}, skipped{"no DSN, and DBQ_TEST_CONTAINERS=no: " + cure}
	case !t.always && !t.required():
		return server{}, skipped{fmt.Sprintf("no DSN, and not asked for: %s, or DBQ_TEST_REQUIRE=%s to start %s in Docker",
			cure, t.name, t.image)}
	}
	image, present := "", false
	err := docker(ctx, func(ctx context.Context, provider *testcontainers.DockerProvider) error {
		image, present = imageOf(ctx, provider, t.image)
		return nil
	})
	switch {
	case err != nil:
		return server{}, skipped{fmt.Sprintf("no DSN, and no Docker (%v): %s, or start Docker", err, cure)}
	case !present && !fetches() && !t.required():
		return server{}, skipped{fmt.Sprintf("no DSN, and no image %s: %s, or docker pull %s, or DBQ_TEST_CONTAINERS=pull",
			image, cure, image)}
	}
	return start(ctx, t)
}

// fetches reports whether images may be fetched that are not there.
func fetches() bool {
	how := os.Getenv("DBQ_TEST_CONTAINERS")
	return how == "pull" || how == "only"
}

// imageOf is the name that an image has here, and whether it is here.
func imageOf(ctx context.Context, provider *testcontainers.DockerProvider, image string) (name string, present bool) {
	if prefix := provider.Config().Config.HubImageNamePrefix; prefix != "" {
		image = prefix + "/" + image
	}
	_, err := provider.Client().ImageInspect(ctx, image)
	return image, err == nil
}

// docker queries Docker, if it answers soon. The library panics where it finds no way to it.
func docker(ctx context.Context, ask func(ctx context.Context,
	provider *testcontainers.DockerProvider) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, dockerTimeout)
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				answer <- fmt.Errorf("%v", p)
			}
		}()
		provider, err := testcontainers.NewDockerProvider()
		if err == nil {
			defer provider.Close()
			err = provider.Health(ctx)
		}
		if err == nil {
			err = ask(ctx, provider)
		}
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("it does not answer within %v", dockerTimeout)
	}
}

// start runs a container of the target's image and waits until it answers a query. An image that cannot be had is a
// skipped error, too: on a machine without a registry Docker alone is not enough.
func start(ctx context.Context, t target) (server, error) {
	patience := cmp.Or(t.patience, startTimeout)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var files []testcontainers.ContainerFile
	for path, text := range t.scripts {
		files = append(files, testcontainers.ContainerFile{Reader: strings.NewReader(text), ContainerFilePath: path,
			FileMode: 0o644})
	}
	var command []testcontainers.ContainerCustomizer
	if len(t.command) > 0 {
		command = append(command, testcontainers.WithCmd(t.command...))
	}
	c, err := testcontainers.Run(ctx, t.image, append(command,
		testcontainers.WithExposedPorts(t.port),
		testcontainers.WithEnv(t.environment),
		testcontainers.WithFiles(files...),
		testcontainers.WithWaitStrategyAndDeadline(patience,
			wait.ForSQL(t.port, t.driver, func(host string, port network.Port) string {
				if t.driverDSN != nil {
					return t.driverDSN(host, port.Port())
				}
				return t.container(host, port.Port())
			}).WithQuery(cmp.Or(t.query, "SELECT 1")).WithPollInterval(pollInterval)))...)
	stop := func() error { return testcontainers.TerminateContainer(c, testcontainers.StopTimeout(stopTimeout)) }
	if err != nil {
		_ = stop()
		return server{}, skipped{fmt.Sprintf("%s did not start in Docker (%v): set %s", t.image, err, t.variable())}
	}
	host, err := c.Host(ctx)
	if err == nil {
		port, portErr := c.MappedPort(ctx, t.port)
		if err = portErr; err == nil {
			dsn := t.container(host, port.Port())
			return server{dsn: func(string) string { return dsn }, origin: "a container of " + t.image, stop: stop}, nil
		}
	}
	_ = stop()
	return server{}, err
}

// probe queries the product and version of a server.
func probe(ctx context.Context, dsn string) (dialect.Server, error) {
	d, pool, err := sqlrun.Open(ctx, dsn, nil)
	if err != nil {
		return dialect.Server{}, err
	}
	defer pool.Close()
	s, err := d.Dialect.Probe(ctx, pool.Write)
	return s, dsnredact.Scrub(err, dsn)
}
