// Command dbq is the command line of the task queue. It enqueues and inspects tasks, runs operators' commands, runs
// programs as workers, and demonstrates the queue with dbq demo. Each command is in the file named after it or its
// group. Its help is a page of help.txt.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() {
	conformance.Child() // a worker process of dbq conform runs nothing else
	// The first signal ends the context, so running work can end in order. The second signal ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, ofProcess(), os.Args[1:]))
}

// run is the whole program. It returns the exit code.
func run(ctx context.Context, in surroundings, args []string) int {
	a := &app{surroundings: in}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(ctx, err, a.began)
	a.complain(cmd, err, code)
	return code
}

// Help lists the commands in newRoot's order, and the state table's. Cobra keeps this for all commands of a process,
// so it is set once: several roots may be made at the same time.
func init() { cobra.EnableCommandSorting = false }

func newRoot(a *app) *cobra.Command {
	a.origin = admin.Origin{By: operatorName(), Program: "cli"}
	root := page("dbq")
	root.Long += "\n\n" + exitCodesSection()
	root.Version = readVersion().Version
	root.SetVersionTemplate("dbq {{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true // run writes errors, each in one line
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		absent, bad := (*pflag.NotExistError)(nil), (*pflag.InvalidValueError)(nil)
		if errors.As(err, &absent) {
			if name, _, _ := strings.Cut(absent.GetSpecifiedShortnames(), "="); cmd.Flag(name) != nil {
				return usagef("-%s: write this flag as --%s", name, name)
			}
			flag, dashes := nameOf(absent.GetSpecifiedName()), " --"
			if len(flag) < 3 {
				dashes = " -"
			}
			return usagef("unknown flag%s", strings.Replace(flag, " ", dashes, 1))
		}
		if wrong := (*pflag.InvalidSyntaxError)(nil); errors.As(err, &wrong) {
			return usagef("a flag has no name")
		}
		if !errors.As(err, &bad) {
			return err
		}
		cause := bad.Unwrap()
		if number := (*strconv.NumError)(nil); errors.As(cause, &number) {
			cause = errors.New("it is not a number")
		}
		return usagef("--%s: %w", bad.GetFlag().Name, cause)
	})
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	f := root.PersistentFlags()
	f.StringVar(&a.dsn, "dsn", "",
		"the `DATABASE`: postgres://…, mysql://…, sqlite:FILE, or a file (default $DBQ_DSN, else "+defaultDSN+")")
	f.StringVar(&a.dsnFile, "dsn-file", "", "read the DSN from `FILE`, to keep it out of the list of processes")
	f.StringVar(&a.prefix, "prefix", "", "`PREFIX` of the tables' names (default dbq_)")
	f.StringVar(&a.schema, "schema", "", "`SCHEMA` of the tables (default the connection's own)")
	f.StringVar(&a.strategy, "strategy", "",
		"checkout `STRATEGY`: skip-locked, advisory or cas; on Oracle also update (default the server's best)")
	f.BoolVar(&a.json, "json", false, "print JSON")

	group := func(id, title string, cmds ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range cmds {
			c.GroupID = cmp.Or(c.GroupID, id)
		}
		root.AddCommand(cmds...)
	}
	group("start", "Getting started:", newDemo(a), newConform(a), newMigrate(a), newEnqueue(a), newImport(a),
		newWork(a), newServe(a))
	group("inspect", "Inspecting:", newStats(a), newList(a), newShow(a), newWait(a), newWorkflow(a))
	operate := []*cobra.Command{newQueue(a), newLimit(a), newWorker(a), newSchedule(a), newToken(a), newAudit(a)}
	for _, t := range state.ByOperator() {
		operate = append(operate, newOperate(a, t))
	}
	group(groupOperate, "Operating:", operate...)
	root.AddGroup(&cobra.Group{ID: groupAdvanced, Title: "Advanced:"})
	root.AddCommand(newVersion(a), newDemoWorker(a))
	for _, cmd := range root.Commands() {
		cmd.SuggestFor = otherNames[cmd.Name()]
	}
	return root
}

// The groups of commands in the help whose commands choose theirs.
const (
	groupOperate  = "operate"
	groupAdvanced = "advanced"
)

// otherNames are names that other programs have for a command. The error of an unknown command suggests the command.
var otherNames = map[string][]string{
	"cancel": {"kill", "abort"}, "list": {"tasks"}, "delete": {"remove", "rm"},
	"queue": {"pause", "resume", "set", "clean"}, "retry": {"requeue", "rerun"},
	"stats": {"status", "count"}, "work": {"run", "start"}, "worker": {"stop", "pause", "resume"},
}

// app is one run of the program: its surroundings and the global flags.
type app struct {
	surroundings

	dsn      string // from --dsn or the file of --dsn-file; "" without these
	dsnFile  string
	prefix   string
	schema   string
	strategy string
	json     bool
	origin   admin.Origin // of changes
	color    bool         // the output is a terminal that shows colors
	logger   *slog.Logger // nil discards

	began bool // a command's own code has started: later errors are not about the command line
}

// runFunc runs a command.
type runFunc = func(ctx context.Context, args []string) error

// command makes a command from its page of help.txt.
func (a *app) command(name string, args cobra.PositionalArgs, f runFunc) *cobra.Command {
	cmd := page(name)
	cmd.Args, cmd.RunE = args, a.runE(f)
	return cmd
}

// runE makes a function the RunE of a command.
func (a *app) runE(f runFunc) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.began = true
		a.color = a.wantsColor()
		if given := cmd.Flag("dsn"); given.Changed && given.Value.String() == "" {
			return usagef("--dsn is empty: give it a DSN, or leave it out to use DBQ_DSN or %s", defaultDSN)
		}
		if a.origin.By == "" {
			return usagef("--by is empty")
		}
		if err := a.readDSNFile(); err != nil {
			return err
		}
		return f(admin.WithOrigin(cmd.Context(), a.origin), args)
	}
}

//go:embed help.txt
var helpText string

// page makes a command without code from its page of help.txt. name is the command's path, such as "dbq queue pause".
func page(name string) *cobra.Command {
	for _, text := range strings.Split(helpText, "\n# ")[1:] {
		head, body, _ := strings.Cut(text, "\n\n")
		usage, short, _ := strings.Cut(head, "\n")
		rest, found := strings.CutPrefix(usage+" ", name+" ")
		if !found || rest != "" && rest[0] >= 'a' { // another command, or one below this one
			continue
		}
		long, examples, _ := strings.Cut("\n"+body, "\nExamples:\n")
		return &cobra.Command{
			Use:     strings.TrimSpace(name[strings.LastIndex(name, " ")+1:] + " " + rest),
			Short:   strings.TrimSpace(short),
			Long:    strings.TrimSpace(long),
			Example: strings.TrimRight(examples, "\n"),
		}
	}
	panic("help.txt has no page on " + name)
}

// withClient turns a function that needs an open database into the code of a command.
func (a *app) withClient(f func(ctx context.Context, c *dbq.Client, args []string) error) runFunc {
	return func(ctx context.Context, args []string) error {
		return a.use(ctx, false, func(c *dbq.Client) error { return f(ctx, c, args) })
	}
}

// use opens the database for f.
func (a *app) use(ctx context.Context, create bool, f func(*dbq.Client) error) error {
	c, err := a.open(ctx, create)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// open opens a database that has the tables. If create is set, as for enqueue and work, it creates the default SQLite
// file and its tables. In any other database, an operator creates the tables with dbq migrate.
func (a *app) open(ctx context.Context, create bool, opts ...dbq.Option) (*dbq.Client, error) {
	t, err := a.target()
	if create = create && t.isDefault; create {
		opts = append(opts, dbq.WithMigrate())
	} else if err == nil {
		err = t.mustExist()
	}
	if err != nil {
		return nil, err
	}
	c, err := dbq.Open(ctx, t.dsn, append(opts, a.options()...)...)
	if err == nil {
		a.caution(t.note)
	}
	return c, err
}

// options are the client's options from the global flags.
func (a *app) options() []dbq.Option {
	// A command prints its result, or its error on one line. Only a worker and a server have a log.
	opts := []dbq.Option{dbq.WithLogger(cmp.Or(a.logger, slog.New(slog.DiscardHandler)))}
	if a.prefix != "" {
		opts = append(opts, dbq.WithPrefix(a.prefix))
	}
	if a.schema != "" {
		opts = append(opts, dbq.WithSchema(a.schema))
	}
	if a.strategy != "" {
		opts = append(opts, dbq.WithStrategy(dialect.Strategy(a.strategy)))
	}
	if password := a.password(); password != nil {
		opts = append(opts, dbq.WithPassword(password))
	}
	return opts
}

// surroundings are the parts of a process that a run of the program uses, so that a process can run it more than once.
type surroundings struct {
	in       io.Reader
	out, err io.Writer

	getenv  func(name string) string
	environ func() []string
	dir     string     // where relative file names start; "" is the process's directory
	chatter slog.Level // servers log from that many levels lower than usual
}

// ofProcess returns the surroundings of the process itself.
func ofProcess() surroundings {
	return surroundings{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, environ: os.Environ}
}

// path returns the path of a file that the user has named.
func (s surroundings) path(name string) string {
	if s.dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.dir, name)
}

// readFile reads a file that the user has named.
func (s surroundings) readFile(name string) ([]byte, error) { return os.ReadFile(s.path(name)) }

// readSecret reads a file that may contain secrets, such as a DSN. Its error does not have the file's name: a user may
// have given the secret itself.
func (s surroundings) readSecret(name string) ([]byte, error) {
	text, err := s.readFile(name)
	return text, unnamed(err)
}

// unnamed returns an error about a file or a program without its name.
func unnamed(err error) error {
	var file *fs.PathError
	var program *exec.Error
	switch {
	case errors.As(err, &file):
		return file.Err
	case errors.As(err, &program):
		return program.Err
	}
	return err
}

// newLogger returns a logger of a server, which logs from a level, as text or JSON.
func (s surroundings) newLogger(from slog.Level, json bool) *slog.Logger {
	opts := &slog.HandlerOptions{Level: from - s.chatter}
	if json {
		return slog.New(slog.NewJSONHandler(s.err, opts))
	}
	return slog.New(slog.NewTextHandler(s.err, opts))
}

type versionInfo struct {
	Version string            `json:"version"`
	Go      string            `json:"go"`
	Schemes []string          `json:"dsn_schemes"`     // that this build supports
	Notes   map[string]string `json:"notes,omitempty"` // about schemes, such as that a dialect is not verified yet
}

func newVersion(a *app) *cobra.Command {
	return a.command("dbq version", noArgs(""), func(context.Context, []string) error {
		v := readVersion()
		err := a.result(v, "dbq %s, %s, DSNs: %s", v.Version, v.Go, strings.Join(v.Schemes, ", "))
		for _, scheme := range slices.Sorted(maps.Keys(v.Notes)) {
			if err == nil && !a.json {
				err = a.say("%s: %s", scheme, v.Notes[scheme])
			}
		}
		return err
	})
}

func readVersion() versionInfo {
	v := versionInfo{dbq.Version(), runtime.Version(), dialect.Schemes(), map[string]string{}}
	for _, scheme := range v.Schemes {
		if d, err := dialect.Lookup(scheme); err == nil && d.Note != "" {
			v.Notes[scheme] = d.Note
		}
	}
	return v
}
