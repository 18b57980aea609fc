//go:build unix

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// misplaced are secrets as a user may type them in the place of anything.
var misplaced = []string{secret, "postgres://app:" + secret + "@127.0.0.1:1/db"}

// untilReady is the output of a server that ends as soon as it is ready.
type untilReady struct {
	*watched
	stop context.CancelFunc
}

func (u untilReady) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "Ctrl-C stops") {
		u.stop()
	}
	return u.watched.Write(b)
}

var webhookSecret = "whsec_" + strings.Repeat("MDAw", 10)

// startedIn runs a command in this process and a directory, a server until it is ready.
func startedIn(t *testing.T, dir string, args ...string) (code int, printed string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out strings.Builder
	errs := untilReady{newWatched(), stop}
	env := map[string]string{"MORE": filepath.Join(dir, "q.db"), "SECRETS": webhookSecret}
	in := surroundings{in: strings.NewReader(""), out: &out, err: errs, dir: dir,
		getenv: func(name string) string { return env[name] }, environ: os.Environ}
	code = run(ctx, in, args)
	return code, out.String() + errs.String()
}

// everyKey is a configuration of dbq serve with every key.
const everyKey = `
listen: 127.0.0.1:0
tls: {cert: cert.pem, key: key.pem, proxies: [10.0.0.0/8]}
auth:
  tokens: shop
  proxy: {from: [10.0.0.0/8], user_header: X-User, groups_header: X-Groups,
    rules: [{user: ann, group: ops, role: viewer, queues: [q], databases: [shop], payloads: true}]}
  oidc: {issuer: "https://127.0.0.1:1", audience: dbq, user_claim: sub, groups_claim: groups, algorithms: [RS256],
    skew: 1m, rules: [{role: viewer}]}
databases:
  shop: {dsn: q.db, prefix: dbq_, strategy: cas}
  logs: {dsn_file: dsn}
  more: {dsn_env: MORE}
  last: {dsn: q.db, schema: ""}
limits: {body_bytes: 100000, memory_bytes: 200000, body_timeout: 9s, timeout: 9s, requests: 9, caller_rate: 9,
  caller_burst: 9, waiting: 9, wait: 9s}
bridges:
  - {database: shop, queue: a, concurrency: 2, lease: 9s, window: 1h, rejected: park,
    forward: {database: logs, queue: b}}
  - {database: shop, queue: c, forward_url: {url_file: url, secrets_env: SECRETS}}
  - {database: shop, queue: d, webhook: {url: "http://127.0.0.1:1/", secret_files: [secret], plain_http: true,
    allow_networks: [127.0.0.0/8], timeout: 9s, on_status: {410: pause-queue}}}
receivers: [{path: /hooks/a, database: shop, queue: e, kind: k, kind_from_type: true, window: 1h, body_bytes: 1000,
  secret_files: [secret]}, {path: /hooks/b, database: shop, queue: e, tasks: true, secrets_env: SECRETS}]
redact: [{database: shop, queue: q, kind: k, paths: [$]}]
drain: 9s
quiet: false
log_json: false
no_maintenance: true
`

// yamlKeys are the keys of a type of the configuration.
func yamlKeys(t reflect.Type, keys map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		yamlKeys(t.Elem(), keys)
	case reflect.Struct:
		for f := range t.Fields() {
			if key, tagged := f.Tag.Lookup("yaml"); tagged && key != "-" {
				keys[strings.TrimSuffix(key, ",inline")] = true
				yamlKeys(f.Type, keys)
			}
		}
	}
}

// eachPlace calls f for each key and each value below a node, with a function that replaces its text.
func eachPlace(n *yaml.Node, path string, f func(path string, n *yaml.Node)) {
	for i, child := range n.Content {
		at := path
		switch {
		case n.Kind == yaml.MappingNode && i%2 == 1:
			at += "." + n.Content[i-1].Value
		case n.Kind == yaml.MappingNode:
			at += ".(" + child.Value + ")"
		}
		f(at, child)
		eachPlace(child, at, f)
	}
}

// Whatever a user types into the configuration of dbq serve, as a key or as a value, no message and no log line of it
// shows it: it may be a secret in the wrong place.
func TestConfigurationShowsNothingThatWasTyped(t *testing.T) {
	u := newUser(t)
	u.certify("cert.pem", "key.pem", 1)
	u.write("dsn", "q.db")
	u.write("url", "https://127.0.0.1:1/tasks")
	u.write("secret", webhookSecret)
	serve := func(text string) (int, string) {
		u.write("config.yaml", text)
		return startedIn(t, u.dir, "serve", "--config", "config.yaml")
	}
	if code, printed := startedIn(t, u.dir, "--dsn", "q.db", "migrate"); code != exitOK {
		t.Fatal(printed)
	}
	if code, printed := serve(everyKey); code != exitOK {
		t.Fatal(printed)
	}
	var config yaml.Node
	check.OK(t, yaml.Unmarshal([]byte(everyKey), &config))
	keys := map[string]bool{}
	yamlKeys(reflect.TypeFor[serveConfig](), keys)
	eachPlace(&config, "", func(path string, n *yaml.Node) {
		delete(keys, n.Value)
		was := *n
		defer func() { *n = was }()
		for _, typed := range misplaced {
			*n = yaml.Node{Kind: yaml.ScalarNode, Value: typed, Tag: "!!str"}
			text, err := yaml.Marshal(&config)
			check.OK(t, err)
			if typed == secret && strings.HasSuffix(path, ".dsn") {
				continue // it is the name of a file
			}
			code, printed := serve(string(text))
			if code == exitOK && strings.HasSuffix(path, ".queue") {
				continue // the log names the queues that the server works on
			}
			if strings.Contains(printed, secret) {
				t.Errorf("%s: %s: exit code %d: %s", path, typed, code, printed)
			}
		}
	})
	for key := range maps.Keys(keys) {
		if key != "" {
			t.Errorf("everyKey lacks %s", key)
		}
	}
}

// Whatever a user types as an argument or as the value of a flag, no error shows it: it may be a secret in the wrong
// place. Only the name of a thing that was not found in the database is shown.
func TestCommandLineErrorsShowNothingThatWasTyped(t *testing.T) {
	u := newUser(t)
	u.write("secret", webhookSecret)
	if code, printed := startedIn(t, u.dir, "--dsn", "q.db", "migrate"); code != exitOK {
		t.Fatal(printed)
	}
	_, id := startedIn(t, u.dir, "--dsn", "q.db", "enqueue", "-q", "q", "--payload", "x")
	lines := append(everyCommand(strings.TrimSpace(id)), checks(u.dir)...)
	lines = append(lines, []string{"serve", "--listen", "127.0.0.1:0"})
	stored := []string{"queue", "holder", "reason", "by"} // what is in the database is shown
	tried := map[string]bool{}
	try := func(what string, args ...string) {
		if tried[what] {
			return
		}
		tried[what] = true
		code, printed := startedIn(t, u.dir, append([]string{"--dsn", "q.db"}, args...)...)
		if code != exitOK && code != exitNotFound && strings.Contains(printed, secret) {
			t.Errorf("%s: %q: exit code %d: %s", what, args, code, printed)
		}
	}
	for _, typed := range misplaced { // where a line above has a flag that excludes this one
		try("enqueue --file "+typed, "enqueue", "--file", typed)
		try("enqueue --payload-file "+typed, "enqueue", "-q", "q", "--payload-file", typed)
		try("schedule put --cron "+typed, "schedule", "put", "t", "-q", "q", "--cron", typed)
	}
	for _, line := range lines {
		cmd, _, err := newRoot(&app{}).Find(line)
		if err != nil || slices.Contains(line, "--json") {
			continue
		}
		verb, rest := line[:strings.Count(cmd.CommandPath(), " ")], line[strings.Count(cmd.CommandPath(), " "):]
		for _, typed := range misplaced {
			with := func(args ...string) []string { return slices.Concat(verb, args, rest) }
			visit := func(f *pflag.Flag) {
				if f.Value.Type() != "bool" && f.Name != "dsn" && !slices.Contains(stored, f.Name) {
					where := cmd.CommandPath()
					if cmd.InheritedFlags().Lookup(f.Name) != nil {
						where = "dbq"
					}
					try(fmt.Sprint(where, " --", f.Name, " ", typed), with("--"+f.Name, typed)...)
				}
			}
			cmd.LocalFlags().VisitAll(visit)
			cmd.InheritedFlags().VisitAll(visit)
			try(fmt.Sprint(cmd.CommandPath(), " ARG ", typed), slices.Concat(verb, []string{typed})...)
			try(fmt.Sprint(cmd.CommandPath(), " ARGS ", typed), with(typed)...)
			try(fmt.Sprint(cmd.CommandPath(), " --FLAG ", typed), with("--"+typed)...)
			try(fmt.Sprint(cmd.CommandPath(), " -F ", typed), with("-y"+typed)...)
			for parent := cmd.Parent(); parent != nil; parent = parent.Parent() {
				try(fmt.Sprint(parent.CommandPath(), " ARG ", typed), append(verb[:len(verb)-1:len(verb)-1], typed)...)
			}
		}
	}
}
