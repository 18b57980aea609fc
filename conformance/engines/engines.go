// Package engines runs the conformance suite on every engine and version that can be had: a server whose DSN is in the
// environment, else a container, else a skip that says why and how to get it. It is the only package that imports
// testcontainers-go, and nothing imports it, so that neither a program nor a third party's dialect gets a container
// library into its go.sum.
//
//	go test ./conformance/engines -run TestConformance/postgres18/cas/Lease
//
// The environment selects the engines and cases:
//
//	DBQ_TEST_POSTGRES18_DSN=postgres://...    the server for a target; DBQ_TEST_POSTGRES_DSN is one of any version
//	DBQ_TEST_MYSQL97_DSN=mysql://...          the same; DBQ_TEST_MARIADB118_DSN=mariadb://...
//	DBQ_TEST_ORACLE23_DSN=oracle://...        the same; DBQ_TEST_ORACLE_DSN is one of any version
//	DBQ_TEST_REQUIRE=postgres15,postgres18    these must run: a skip is a failure
//	DBQ_TEST_CONTAINERS=pull                  pull missing images; by default only local images are used
//	DBQ_TEST_CONTAINERS=only                  the same, and ignore DSNs; no: use no containers at all
//	DBQ_TEST_REPORTS=directory                gets a report of each target: target.json and target.txt
//	DBQ_TEST_FIFTH=0 to 4                     adds to go test -short one fifth of the cases that it leaves out
//	DBQ_TEST_WHOLE=postgres18,mysql97         all cases run on these, also with go test -short
//	DBQ_TEST_LOAD=200                         multiplies the work of Contention and Worker: Worker/FourProcesses then has
//	                                          100,000 tasks
package engines

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/mysql"  // and its driver "mysql"
	_ "github.com/dbq-go/dbq/dialect/oracle" // and its driver "oracle"
	"github.com/dbq-go/dbq/dialect/postgres"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", to wait for a container with
)

// A target is an engine of a version, as subtests name it.
type target struct {
	name string
	engine
	image  string // an official image's name; "" has no container
	always bool   // try a container even if the target is not required
	newest string // the target that a short run tests instead of this one, if its server is there
}

// targets to test. A container takes its time, so only the oldest and the newest version are tried in one unasked, and
// only if its image is there.
var targets = []target{
	{"sqlite", sqliteEngine, "", true, ""},
	{"postgres15", postgresEngine, "postgres:15", true, "postgres18"},
	{"postgres17", postgresEngine, "postgres:17", false, "postgres18"},
	{"postgres18", postgresEngine, "postgres:18", true, ""},
	{"postgres", postgresEngine, "", false, ""},             // any version
	{"pgbouncer", pgbouncerEngine, "", false, "postgres18"}, // one in transaction mode, before a server of any version
	{"mysql84", mysqlEngine("mysql", "MYSQL_ROOT_PASSWORD"), "mysql:8.4", true, "mysql97"},
	{"mysql97", mysqlEngine("mysql", "MYSQL_ROOT_PASSWORD"), "mysql:9.7", true, ""},
	{"mariadb1011", mysqlEngine("mariadb", "MARIADB_ROOT_PASSWORD"), "mariadb:10.11", true, "mariadb118"},
	{"mariadb118", mysqlEngine("mariadb", "MARIADB_ROOT_PASSWORD"), "mariadb:11.8", true, ""},
	{"oracle23", oracleEngine, "gvenzl/oracle-free:23-slim", true, ""},
	{"oracle", oracleEngine, "", false, ""}, // any version
}

// An engine describes all versions of a product.
type engine struct {
	// file is a DSN in a directory, for an engine without a server.
	file func(dir string) string
	// port, environment and container are how a container of the official image is used, and driver waits for it, with
	// driverDSN where it wants another form of DSN than dbq.
	port, driver string
	environment  map[string]string
	container    func(host, port string) (dsn string)
	driverDSN    func(host, port string) string
	// command replaces the command of a container's image.
	command []string
	// query is the first query of an engine that does not accept SELECT 1; scripts are put into the container by their
	// paths; patience is for an engine that takes longer than others to come up.
	query    string
	scripts  map[string]string
	patience time.Duration
	// oddSession and transactions are fields of conformance.Harness.
	oddSession   func(dsn string) string
	transactions func(dsn string) map[string]beginner
}

type beginner = func(ctx context.Context, c *dbq.Client) (tx dbq.Tx, commit, rollback func() error, err error)

// sqliteEngine does not sync at each commit, unlike the run of examples/acme: the other way to use it, and a fast one.
var sqliteEngine = engine{
	file: func(dir string) string { return "sqlite:" + filepath.Join(dir, "queue.db") + "?synchronous=normal" },
}

var postgresEngine = engine{
	port: "5432/tcp", driver: "pgx",
	environment: map[string]string{"POSTGRES_PASSWORD": "conformance"},
	// Cases that run at once have had more than the 100 connections that are the server's default.
	command: []string{"postgres", "-c", "max_connections=200"},
	container: func(host, port string) string {
		return "postgres://postgres:conformance@" + host + ":" + port + "/postgres?sslmode=disable"
	},
	oddSession: func(dsn string) string { return withParameter(dsn, "timezone", "Asia/Kathmandu") },
	transactions: func(dsn string) map[string]beginner {
		return map[string]beginner{"pgx.Tx": func(ctx context.Context, _ *dbq.Client) (dbq.Tx, func() error, func() error,
			error) {
			return beginPgx(ctx, dsn)
		}}
	},
}

// pgbouncerEngine is PostgreSQL behind a pooler that shares sessions. dbq finds out by itself; a caller who uses pgx
// has to know.
var pgbouncerEngine = engine{
	oddSession: postgresEngine.oddSession,
	transactions: func(dsn string) map[string]beginner {
		return postgresEngine.transactions(withParameter(dsn, "default_query_exec_mode", "exec"))
	},
}

// mysqlEngine is MySQL or MariaDB, by the scheme of its DSNs and the variable that gives the image's root its password.
// It has no oddSession: dbq sets the time zone of each of its sessions, and a DSN cannot set another.
func mysqlEngine(scheme, passwordVariable string) engine {
	return engine{
		port: "3306/tcp", driver: "mysql",
		environment: map[string]string{passwordVariable: "conformance"},
		container: func(host, port string) string {
			return scheme + "://root:conformance@" + net.JoinHostPort(host, port) + "/mysql"
		},
		driverDSN: func(host, port string) string {
			return "root:conformance@tcp(" + net.JoinHostPort(host, port) + ")/mysql"
		},
	}
}

// oracleEngine is the free edition in a container that is not made by Oracle, as its own documentation says to use it:
// its user, who may make tables and views, is made before the scripts are run, which grant the rights that the strategy
// advisory needs. It has no oddSession: no statement depends on a session's time zone, and a DSN cannot set it.
var oracleEngine = engine{
	port: "1521/tcp", driver: "oracle",
	environment: map[string]string{"ORACLE_PASSWORD": "conformance", "APP_USER": "dbq",
		"APP_USER_PASSWORD": "conformance"},
	container: func(host, port string) string {
		return "oracle://dbq:conformance@" + net.JoinHostPort(host, port) + "/FREEPDB1"
	},
	query: "BEGIN DBMS_LOCK.SLEEP(0); END;", // an error until the script has run
	scripts: map[string]string{"/container-entrypoint-initdb.d/grant.sql": "WHENEVER SQLERROR EXIT SQL.SQLCODE\n" +
		"ALTER SESSION SET CONTAINER = FREEPDB1;\nGRANT EXECUTE ON DBMS_LOCK TO dbq;\n"},
	patience: 10 * time.Minute,
}

// beginPgx starts a transaction on a connection of its own, which ends with it.
func beginPgx(ctx context.Context, dsn string) (_ dbq.Tx, commit, rollback func() error, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, nil, nil, err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		conn.Close(ctx)
		return nil, nil, nil, err
	}
	then := func(end func(context.Context) error) func() error {
		return func() error {
			defer conn.Close(ctx)
			return end(ctx)
		}
	}
	return postgres.Tx(tx), then(tx.Commit), then(tx.Rollback), nil
}

// withParameter adds a parameter to a DSN.
func withParameter(dsn, name, value string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn // the client that opens it reports the problem
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}
