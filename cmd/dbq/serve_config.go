package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/auth/oidc"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/dsnredact"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/redaction"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

const defaultListen = "127.0.0.1:8321"

// serveConfig is the configuration of dbq serve: the file of --config, as YAML or JSON, overridden by flags.
type serveConfig struct {
	Listen    string                     `yaml:"listen"`
	TLS       tlsConfig                  `yaml:"tls"`
	Auth      authConfig                 `yaml:"auth"`
	Databases map[string]*databaseConfig `yaml:"databases"`
	Limits    limitsConfig               `yaml:"limits"`
	Bridges   []bridgeConfig             `yaml:"bridges"`
	Receivers []receiverConfig           `yaml:"receivers"`
	Redact    []redaction.Rule           `yaml:"redact"`
	Drain     length                     `yaml:"drain"`
	Quiet     bool                       `yaml:"quiet"`
	LogJSON   bool                       `yaml:"log_json"`

	NoMaintenance bool `yaml:"no_maintenance"`
}

// tlsConfig names the files of a certificate, in PEM, or the proxies that end TLS instead.
type tlsConfig struct {
	Cert    string         `yaml:"cert"`
	Key     string         `yaml:"key"`
	Proxies []netip.Prefix `yaml:"proxies"`
}

// proxies returns the addresses of the proxies that say whether a browser uses HTTPS.
func (c serveConfig) proxies() []netip.Prefix {
	if c.Auth.Proxy == nil {
		return c.TLS.Proxies
	}
	return slices.Concat(c.TLS.Proxies, c.Auth.Proxy.From)
}

// authConfig is how callers authenticate. If it is empty, only this machine is served, and needs no credentials.
type authConfig struct {
	Tokens string       `yaml:"tokens"` // the name of the database whose tokens are accepted
	Proxy  *auth.Proxy  `yaml:"proxy"`
	OIDC   *oidc.Config `yaml:"oidc"`

	verifier *oidc.Verifier // of OIDC
}

// databaseConfig is one database. Its DSN is given in one of three ways.
type databaseConfig struct {
	DSN      string `yaml:"dsn"`
	DSNFile  string `yaml:"dsn_file"`
	DSNEnv   string `yaml:"dsn_env"`
	Prefix   string `yaml:"prefix"`
	Schema   string `yaml:"schema"`
	Strategy string `yaml:"strategy"`

	create bool // it is the default file, which is created
}

// limitsConfig are the limits of the API; see api.Config. Zero is the default.
type limitsConfig struct {
	Body        int64   `yaml:"body_bytes"`
	Memory      int64   `yaml:"memory_bytes"`
	BodyTimeout length  `yaml:"body_timeout"`
	Timeout     length  `yaml:"timeout"`
	Requests    int     `yaml:"requests"`
	CallerRate  float64 `yaml:"caller_rate"`
	CallerBurst int     `yaml:"caller_burst"`
	Waiting     int     `yaml:"waiting"`
	Wait        length  `yaml:"wait"`
}

// length is a time in the form of the command line, such as 30s.
type length time.Duration

// UnmarshalText reads it.
func (d *length) UnmarshalText(text []byte) error {
	v, err := duration.Parse(string(text))
	if err != nil || v < 0 {
		return errors.New("a time has a unit, such as 30s")
	}
	*d = length(v)
	return nil
}

func (s *server) addFlags(cmd *cobra.Command) {
	l := cmd.Flags()
	l.StringArrayVar(&s.dsns, "dsn", nil, "a database as `NAME=DSN`, repeatable; DSN alone has the name default")
	l.StringVar(&s.configFile, "config", "", "read the configuration from `FILE`, in YAML or JSON")
	l.BoolVar(&s.demo, "demo", false, "serve sample data in a temporary SQLite file, with workers")
	l.StringVar(&s.flags.Listen, "listen", defaultListen, "listen on `HOST:PORT`")
	l.StringVar(&s.flags.Auth.Tokens, "tokens", "", "accept callers that have a token of the database `NAME`")
	l.StringVar(&s.flags.TLS.Cert, "tls-cert", "", "serve HTTPS with the certificate in `FILE`")
	l.StringVar(&s.flags.TLS.Key, "tls-key", "", "the certificate's private key is in `FILE`")
	durationVar(l, (*time.Duration)(&s.flags.Drain), "drain", 30*time.Second,
		"when stopping, wait this `TIME` for running requests").within(time.Millisecond, 0)
	l.BoolVar(&s.flags.Quiet, "quiet", false, "log no line for each request")
	l.BoolVar(&s.flags.LogJSON, "log-json", false, "log JSON instead of text")
	l.BoolVar(&s.flags.NoMaintenance, "no-maintenance", false, "leave the maintenance of the databases to others")
	s.changed = l.Changed
}

// config returns the configuration of the file and the flags.
func (s *server) config() (serveConfig, error) {
	cfg := serveConfig{Listen: s.flags.Listen, Drain: s.flags.Drain}
	if s.configFile != "" {
		text, err := s.readSecret(s.configFile)
		if err != nil {
			return cfg, usagef("cannot read --config: %w", err)
		}
		if err := decodeConfig(text, &cfg); err != nil {
			return cfg, usagef("--config: %w", err)
		}
	}
	if s.changed("listen") {
		cfg.Listen = s.flags.Listen
	}
	if s.changed("tokens") {
		cfg.Auth.Tokens = s.flags.Auth.Tokens
	}
	if s.changed("drain") {
		cfg.Drain = s.flags.Drain
	}
	if s.changed("tls-cert") || s.changed("tls-key") {
		cfg.TLS.Cert, cfg.TLS.Key = s.flags.TLS.Cert, s.flags.TLS.Key
	}
	cfg.Quiet, cfg.LogJSON = cfg.Quiet || s.flags.Quiet, cfg.LogJSON || s.flags.LogJSON
	cfg.NoMaintenance = cfg.NoMaintenance || s.flags.NoMaintenance
	if (cfg.TLS.Cert == "") != (cfg.TLS.Key == "") {
		return cfg, usagef("give both --tls-cert and --tls-key, or neither")
	}
	for i, r := range cfg.Redact {
		if err := r.Check(); err != nil {
			return cfg, usagef("redact, rule %d: %w", i+1, err)
		}
	}
	return cfg, s.addDatabases(&cfg)
}

// What an error of the YAML library has besides words of its own: names of fields, keys and anchors, and values. Any of
// them may be a secret that was typed in the wrong place.
var yamlErrors = []struct {
	text *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`(?s)^(line \d+: )?field .* not found in type .*$`), "${1}there is no such field"},
	{regexp.MustCompile(`(?s)^(line \d+: )?mapping key .* already defined at (line \d+)$`), "${1}the key is that of $2"},
	{regexp.MustCompile(`(?s)^(line \d+: )?cannot unmarshal (\S+) .* into .*$`),
		"${1}the value, a $2, is of the wrong kind"},
	{regexp.MustCompile(`(?s)^(.*: )?(?:unknown )?anchor '.*$`), "an anchor is unknown or contains itself"},
}

// quotedValue matches a value in the error of a type that refuses it.
var quotedValue = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// decodeConfig reads a configuration. Its errors contain nothing of the file, which may have secrets anywhere.
func decodeConfig(text []byte, cfg *serveConfig) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	err := dec.Decode(cfg)
	if err == nil && dec.Decode(&struct{}{}) != io.EOF {
		return errors.New("the file has more than one document")
	}
	if err == nil || err == io.EOF { // an empty file
		return nil
	}
	var wrong *yaml.TypeError
	message, ofLibrary := strings.CutPrefix(err.Error(), "yaml: ")
	switch {
	case errors.As(err, &wrong): // one by one: a value may contain anything
		for i, text := range wrong.Errors {
			wrong.Errors[i] = plainYAML(text)
		}
		return errors.New(strings.Join(wrong.Errors, "; "))
	case ofLibrary:
		return errors.New(plainYAML(message))
	}
	return errors.New(quotedValue.ReplaceAllLiteralString(err.Error(), "the value"))
}

// plainYAML returns an error of the YAML library without the user's input.
func plainYAML(message string) string {
	for _, t := range yamlErrors {
		if t.text.MatchString(message) {
			return t.text.ReplaceAllString(message, t.as)
		}
	}
	return oneLine(message)
}

// addDatabases adds the databases of the flags and finds the DSNs. Without any it takes DBQ_DSN, or the default file.
func (s *server) addDatabases(cfg *serveConfig) error {
	if cfg.Databases == nil {
		cfg.Databases = map[string]*databaseConfig{}
	}
	if s.dsnFile != "" {
		cfg.Databases["default"] = &databaseConfig{DSNFile: s.dsnFile}
	}
	for _, given := range s.dsns {
		name, dsn := "default", given
		if before, after, _ := strings.Cut(given, "="); bounds.DatabaseName(before) && before != given &&
			(isDSN(after) || !isDSN(given)) {
			name, dsn = before, after // and not host=db.example dbname=app
		}
		if cfg.Databases[name] != nil {
			return usagef("the database %q is given twice: name each one, as NAME=DSN", name)
		}
		cfg.Databases[name] = &databaseConfig{DSN: dsn}
	}
	if len(cfg.Databases) == 0 {
		cfg.Databases["default"] = &databaseConfig{DSN: s.getenv("DBQ_DSN"), create: s.getenv("DBQ_DSN") == ""}
	}
	for name, d := range cfg.Databases {
		if !bounds.DatabaseName(name) { // it may be a DSN
			return usagef("databases: a name has 1 to 32 lower-case letters, digits, - and _, and begins with a letter")
		}
		if d == nil {
			return usagef("the database %q has no DSN", name)
		}
		if err := d.resolve(name, s.surroundings); err != nil {
			return err
		}
		d.Prefix, d.Schema, d.Strategy = cmp.Or(d.Prefix, s.prefix), cmp.Or(d.Schema, s.schema),
			cmp.Or(d.Strategy, s.strategy)
	}
	return nil
}

// isDSN reports whether a text is a DSN of a dialect.
func isDSN(text string) bool {
	_, err := dialect.Lookup(text)
	return err == nil
}

// resolve finds the DSN.
func (d *databaseConfig) resolve(name string, in surroundings) error {
	given := 0
	for _, way := range []string{d.DSN, d.DSNFile, d.DSNEnv} {
		if way != "" {
			given++
		}
	}
	switch {
	case d.create:
		return nil
	case given != 1:
		return usagef("the database %q needs one of dsn, dsn_file and dsn_env", name)
	case d.DSNEnv != "":
		if d.DSN = in.getenv(d.DSNEnv); d.DSN == "" {
			return usagef("the database %q: the variable that dsn_env names is empty", name)
		}
	case d.DSNFile != "":
		part := app{surroundings: in, dsnFile: d.DSNFile}
		if err := part.readDSNFile(); err != nil {
			return usagef("the database %q: %s", name, strings.Replace(err.Error(), "--dsn-file", "dsn_file", 1))
		}
		d.DSN = part.dsn
	}
	return nil
}

// check refuses an authentication that cannot work, and none if other machines can reach the server.
func (a *authConfig) check(databases map[string]*databaseConfig, loopback bool) (err error) {
	if a.Tokens != "" && databases[a.Tokens] == nil {
		return usagef("--tokens: it is not the name of a database of the server; write one of: %s",
			strings.Join(slices.Sorted(maps.Keys(databases)), ", "))
	}
	if a.Proxy != nil {
		if err := a.Proxy.Check(); err != nil {
			return usagef("the proxy of auth: %w", err)
		}
	}
	if a.OIDC != nil {
		if a.verifier, err = oidc.New(*a.OIDC); err != nil {
			return usagef("the oidc of auth: %w", err)
		}
	}
	if a.Tokens == "" && a.Proxy == nil && a.OIDC == nil && !loopback {
		return &exitError{exitUsage, errNoAuthentication}
	}
	return nil
}

// authenticator returns the authenticator of requests.
func (a authConfig) authenticator(clients map[string]*dbq.Client) auth.Authenticator {
	var chain auth.Chain
	if a.Tokens != "" {
		chain = append(chain, auth.NewTokens(clients[a.Tokens]))
	}
	if a.verifier != nil {
		chain = append(chain, a.verifier)
	}
	if a.Proxy != nil {
		chain = append(chain, *a.Proxy)
	}
	if len(chain) == 0 {
		return auth.Loopback{}
	}
	return chain
}

// scrubbed hides the secrets of a DSN in an error.
func scrubbed(err error, dsn string) error {
	if isFile(dsn) {
		return err
	}
	return dsnredact.Scrub(err, dsn)
}

// place is a queue of a database of the server.
type place struct{ database, queue string }

// forwardingLoop returns a loop in which bridges forward tasks, such as "a/q to b/q to a/q", or "".
func forwardingLoop(configs []bridgeConfig) string {
	next := map[place][]place{}
	for _, c := range configs {
		if c.Forward != nil {
			from := place{c.Database, c.Queue}
			next[from] = append(next[from], place{c.Forward.Database, c.Forward.Queue})
		}
	}
	done := map[place]bool{}
	var follow func(path []place) []place
	follow = func(path []place) []place {
		last := path[len(path)-1]
		if i := slices.Index(path[:len(path)-1], last); i >= 0 {
			return path[i:]
		}
		if done[last] {
			return nil
		}
		for _, to := range next[last] {
			if loop := follow(append(slices.Clone(path), to)); loop != nil {
				return loop
			}
		}
		done[last] = true
		return nil
	}
	for _, c := range configs {
		if loop := follow([]place{{c.Database, c.Queue}}); loop != nil {
			var names []string
			for _, p := range loop {
				names = append(names, p.database+"/"+p.queue)
			}
			return strings.Join(names, " to ")
		}
	}
	return ""
}
