package engines

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// oddCases are the laws that must hold whatever a session inherits.
var oddCases = regexp.MustCompile("^(Schema|Enqueue|Checkout|Lease|Operate|Keeping)/")

// oddRounds is how many values of each variable are tried.
const oddRounds = 2

// A variable is one of a server that new sessions inherit, and other values of it that are valid.
type variable struct {
	name, usual string
	odd         []string
}

// variables read each server's variables that a session inherits: name, kind, value, minimum, maximum and values.
var variables = map[string]string{
	"PostgreSQL": `SELECT name, vartype, setting, coalesce(min_val, ''), coalesce(max_val, ''),
       coalesce(array_to_string(enumvals, ','), '')
  FROM pg_settings
 WHERE context IN ('user', 'superuser') AND category <> 'Developer Options' ORDER BY name`,
	"MySQL": `SELECT variable_name, data_type, variable_value, coalesce(min_value, ''), coalesce(max_value, ''), '0,1,2'
  FROM performance_schema.variables_metadata JOIN performance_schema.global_variables USING (variable_name)
 WHERE variable_scope = 'SESSION' ORDER BY variable_name`,
	"MariaDB": `SELECT LOWER(variable_name), variable_type, global_value, coalesce(numeric_min_value, ''),
       coalesce(numeric_max_value, ''), coalesce(enum_value_list, '')
  FROM information_schema.system_variables
 WHERE variable_scope = 'SESSION' AND read_only = 'NO' ORDER BY variable_name`,
}

// oddTexts are values of variables for which the server lists none.
var oddTexts = map[string][]string{
	"character_set_client": {"latin1"}, "character_set_connection": {"latin1"}, "character_set_results": {"latin1"},
	"character_set_database": {"latin1"}, "character_set_server": {"latin1"}, "collation_connection": {"latin1_bin"},
	"collation_database": {"latin1_bin"}, "collation_server": {"latin1_bin"},
	"default_storage_engine": {"MyISAM"}, "default_tmp_storage_engine": {"MyISAM"},
	"default_collation_for_utf8mb4": {"utf8mb4_general_ci"}, "lc_time_names": {"de_DE"}, "time_zone": {"+05:45"},
	"sql_mode": {"ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION",
		"TRADITIONAL,ALLOW_INVALID_DATES,IGNORE_SPACE,REAL_AS_FLOAT"},
	"optimizer_switch": {"index_merge=off,mrr=off,materialization=off,semijoin=off,derived_merge=off"},
	"client_encoding":  {"LATIN1", "SQL_ASCII"},
	"DateStyle":        {"SQL, DMY", "German, YMD"},
	"TimeZone":         {"Asia/Kathmandu"}, "lc_messages": {"C"}, "lc_numeric": {"C"},
}

// limits are variables whose least value leaves a session too little to work with. A server that has one so low
// reports it.
var limits = regexp.MustCompile("_timeout$|_time$|_buffer_size$|tmp_.*(size|usage)$|" +
	"^max_(session_mem_used|heap_table_size)$|^(connection_memory_limit|parser_max_mem_size|log_|wsrep_)|" +
	"^(enforce_storage_engine|server_id|redirect_url)$")

// TestOddSettings walks through the variables of each server that a session inherits. Open reports an odd value, by
// the variable's name, or the laws hold under it. It changes settings of the whole server, which nothing else may use.
func TestOddSettings(t *testing.T) {
	if os.Getenv("DBQ_TEST_ODD") == "" {
		t.Skip("it changes the settings of the whole server: set DBQ_TEST_ODD if nothing else uses it")
	}
	for _, target := range present() {
		dsn := os.Getenv(target.variable())
		if target.file != nil || target.name == "pgbouncer" { // which refuses settings that it does not know
			continue
		}
		t.Run(target.name, func(t *testing.T) {
			o := newOdd(t, dsn)
			for round := range oddRounds {
				var settings []variable
				for _, v := range o.variables {
					if len(v.odd) == 0 || round > 0 && len(v.odd) == 1 {
						continue
					}
					v.odd = v.odd[round : round+1]
					if o.opens(v) {
						settings = append(settings, v)
					}
				}
				t.Logf("round %d: %d settings at once", round, len(settings))
				o.blame(oddCases, settings)
			}
		})
	}
}

// odd is a server whose settings are changed.
type odd struct {
	*testing.T
	dsn       string
	db        *sql.DB
	strategy  dialect.Strategy
	variables []variable
}

func newOdd(t *testing.T, dsn string) *odd {
	t.Helper()
	server, err := probe(t.Context(), dsn)
	check.OK(t, err)
	_, pool, err := sqlrun.Open(t.Context(), dsn, nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	o := &odd{T: t, dsn: dsn, db: pool.Write, strategy: server.Strategies[0]}
	rows, err := o.db.QueryContext(t.Context(), variables[server.Product])
	check.OK(t, err)
	defer rows.Close()
	for rows.Next() {
		var v variable
		var kind, least, most, values string
		check.OK(t, rows.Scan(&v.name, &kind, &v.usual, &least, &most, &values))
		switch texts := oddTexts[v.name]; {
		case texts != nil:
			v.odd = texts
		case limits.MatchString(v.name):
		case strings.HasPrefix(strings.ToLower(kind), "bool"):
			v.odd = []string{map[bool]string{true: "OFF", false: "ON"}[strings.EqualFold(v.usual, "on")]}
		case strings.HasPrefix(strings.ToLower(kind), "enum"):
			v.odd = slices.DeleteFunc(strings.Split(values, ","), func(s string) bool {
				return s == "" || strings.EqualFold(s, v.usual)
			})
		case least != "" && number(least) != number(v.usual):
			v.odd = []string{least}
		case most != "":
			v.odd = []string{most}
		}
		o.variables = append(o.variables, v)
	}
	if err := rows.Err(); err != nil || len(o.variables) < 50 {
		t.Fatalf("%d variables, %v", len(o.variables), err)
	}
	return o
}

func number(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

// with calls f with a DSN whose sessions inherit settings.
func (o *odd) with(settings []variable, f func(dsn string)) {
	o.Helper()
	dsn := o.dsn
	for _, v := range settings {
		if strings.HasPrefix(dsn, "postgres") {
			dsn = withParameter(dsn, v.name, v.odd[0])
			continue
		}
		if err := o.set(v.name, v.odd[0]); err != nil {
			o.Fatal(err)
		}
		defer func() {
			if err := o.set(v.name, v.usual); err != nil {
				o.Errorf("left behind: %s: %v", v.name, err)
			}
		}()
	}
	f(dsn)
}

// set sets a variable of MySQL or MariaDB for new sessions.
func (o *odd) set(name, value string) error {
	if _, err := strconv.ParseFloat(value, 64); value == "" {
		value = "DEFAULT"
	} else if err != nil {
		value = "'" + value + "'"
	}
	_, err := o.db.ExecContext(context.WithoutCancel(o.Context()), "SET GLOBAL "+name+" = "+value)
	return err
}

// opens reports whether a client opens with a setting. If it does not, its error must name the variable. A setting that
// the server refuses, or has already, is passed over.
func (o *odd) opens(v variable) (opened bool) {
	o.Helper()
	if !strings.HasPrefix(o.dsn, "postgres") {
		if err := o.set(v.name, v.odd[0]); err != nil {
			o.Logf("%s=%s cannot be set: %v", v.name, v.odd[0], err)
			return false
		}
	}
	o.with([]variable{v}, func(dsn string) {
		c, err := dbq.Open(o.Context(), dsn, dbq.WithPrefix("odd_"))
		switch {
		case err == nil:
			c.Close()
			opened = true
		case errors.Is(err, dbq.ErrNotMigrated):
			opened = true
		case errors.Is(err, dbq.ErrServer) && named(err, v):
			o.Logf("%s=%s is refused: %v", v.name, v.odd[0], err)
		case errors.Is(err, dbq.ErrDenied), named(err, v):
			o.Logf("%s=%s cannot be set: %v", v.name, v.odd[0], err)
		default:
			o.Errorf("%s=%s: %v, want an error that names the variable, or none", v.name, v.odd[0], err)
		}
	})
	return opened
}

// named reports whether an error names a variable.
func named(err error, v variable) bool {
	return strings.Contains(strings.ToLower(err.Error()), strings.ToLower(v.name))
}

// laws runs cases under settings, and returns the texts of those that failed by their names.
func (o *odd) laws(match *regexp.Regexp, settings []variable) map[string]string {
	o.Helper()
	failed := map[string]string{}
	o.with(settings, func(dsn string) {
		rep, err := conformance.Check(o.Context(), conformance.Harness{DSN: func(string) string { return dsn },
			Processes: true, Match: match, Strategies: []dialect.Strategy{o.strategy}, Select: conformance.Short}, nil)
		if err != nil {
			failed["Schema/FromEmpty"] = err.Error()
		}
		for _, r := range rep.Results {
			if r.Status() == conformance.Failed {
				failed[r.Case.FullName()] = strings.Join(r.Failures, "\n")
			}
		}
	})
	return failed
}

// blame reports which of the settings make cases fail: it halves the settings until one is left.
func (o *odd) blame(match *regexp.Regexp, settings []variable) {
	o.Helper()
	failed := o.laws(match, settings)
	if len(failed) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(failed))
	o.Errorf("%d settings, from %s=%s:", len(settings), settings[0].name, settings[0].odd[0])
	for _, name := range names {
		o.Logf("%s: %s", name, failed[name])
	}
	if len(settings) == 1 {
		return
	}
	match = regexp.MustCompile("^(" + strings.Join(names, "|") + ")$")
	o.blame(match, settings[:len(settings)/2])
	o.blame(match, settings[len(settings)/2:])
}
