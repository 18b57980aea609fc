package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/dsnredact"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitState       = 4
	exitUnavailable = 5
	exitNotMigrated = 6
	exitMayHappened = 7
	exitBroken      = 8
	exitServer      = 9
	exitInterrupted = 130
)

// exitCodes are the exit codes in the order of dbq help, each with its errors.
var exitCodes = []struct {
	code    int
	meaning string
	errs    []error
}{
	{exitOK, "success", nil},
	{exitFailed, "a task failed, a check failed, or an unexpected error occurred", nil},
	{exitUsage, "the command line or an input is invalid; nothing was changed",
		[]error{dbq.ErrInvalid, dbq.ErrUnknownScheme, dbq.ErrDSN}},
	{exitNotFound, "the task, queue or schedule does not exist, or the worker does not run", []error{dbq.ErrNotFound}},
	{exitState, "the task's state does not allow the operation, its lease was lost, or its reference or key is taken",
		[]error{dbq.ErrWrongState, dbq.ErrLeaseLost, dbq.ErrDuplicate}},
	{exitUnavailable, "the database does not exist, cannot be reached, or refuses access",
		[]error{dbq.ErrUnavailable, dbq.ErrDenied, dbq.ErrConflict}},
	{exitNotMigrated, "dbq's tables are missing or have another version: run dbq migrate",
		[]error{dbq.ErrNotMigrated, dbq.ErrSchemaOld, dbq.ErrSchemaNew}},
	{exitMayHappened, "the change may have happened: the connection was lost before the answer", nil},
	{exitBroken, "dbq conform found that the database breaks a promise", nil},
	{exitServer, "the server cannot be used as it is configured; the message says what to change", nil},
	{exitInterrupted, "interrupted", nil},
}

// exitCodesSection is the list of the exit codes in dbq help.
func exitCodesSection() string {
	text := "Exit codes:"
	for _, c := range exitCodes {
		text += fmt.Sprintf("\n  %-4d %s", c.code, c.meaning)
	}
	return text
}

// word matches a possible name of a command or a flag.
var word = regexp.MustCompile(`^[a-z][a-z-]{0,19}$`)

// nameOf returns a name that was typed with a space before it, as an error shows it, or "" for other text. No error
// shows anything else that was typed, unless it names a thing in the database: it may be a secret.
func nameOf(typed string) string {
	if !word.MatchString(typed) {
		return ""
	}
	return " " + typed
}

// exitError is an error with its own exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// hint is an error about a DSN whose text has nothing of it, so that nothing of it is hidden.
type hint string

func (h hint) Error() string { return string(h) }

// ShowsNoDSN marks it for package dsnredact.
func (h hint) ShowsNoDSN() {}

// usagef returns an error about the command line or its input.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// failedf returns an error with exitFailed.
func failedf(format string, args ...any) error {
	return &exitError{exitFailed, fmt.Errorf(format, args...)}
}

// exitCode is the code for an error. Errors before a command's own code has started come from cobra and are about the
// command line.
func exitCode(ctx context.Context, err error, began bool) int {
	var own *exitError
	switch {
	case errors.Is(err, dbq.ErrMayHaveHappened): // whatever the cause
		return exitMayHappened
	case errors.Is(err, dbq.ErrServer): // it may be unavailable, too
		return exitServer
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &own):
		return own.code
	}
	for _, c := range exitCodes {
		if slices.ContainsFunc(c.errs, func(e error) bool { return errors.Is(err, e) }) {
			return c.code
		}
	}
	if !began {
		return exitUsage
	}
	return exitFailed
}

// cureOf returns the cure of an error, or "" if the error's text has it.
func cureOf(err error) string {
	switch {
	case errors.Is(err, dbq.ErrNoDatabase):
		return "" // its text has the cure
	case errors.Is(err, dbq.ErrUnavailable):
		return "check that the server runs and that --dsn or DBQ_DSN names it"
	case errors.Is(err, dbq.ErrDenied):
		return "check the user, the password and the rights in --dsn or DBQ_DSN"
	case errors.Is(err, dbq.ErrMayHaveHappened):
		return "check with `dbq list` before you repeat it"
	}
	return ""
}

// forPrograms are hints of the library to programmers, which do not help at a command line.
var forPrograms = strings.NewReplacer(
	", or open with dbq.WithMigrate()", "", ": update this program", ": update dbq", ": dbq: ", ": ")

// suggestions puts the suggestions of an unknown command, which have lines of their own, into its sentence.
var suggestions = strings.NewReplacer(" for \"dbq\"", "", "\n\nDid you mean this?\n\t", ": try ", "\n\t", " or ")

// complain writes one line with the failure and its cure. cmd is the command, as far as it is known.
func (a *app) complain(cmd *cobra.Command, err error, code int) {
	text := forPrograms.Replace(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "dbq: "), "conformance: "))
	if code == exitInterrupted {
		text = "interrupted"
		if own := (*interrupted)(nil); errors.As(err, &own) {
			text += ": " + own.done
		}
	} else if cure := cureOf(err); cure != "" {
		text += " (" + cure + ")"
	}
	var plain interface{ ShowsNoDSN() }
	given := a.givenDSN()
	if !isFile(given) && !errors.As(err, &plain) { // the hint may have words of the DSN
		text = dsnredact.Scrub(errors.New(text), given).Error()
	}
	if !a.began && code == exitUsage {
		text = strings.TrimSpace(suggestions.Replace(text))
		if rest, unknown := strings.CutPrefix(text, "unknown command "); unknown {
			typed := quotedValue.FindString(rest)
			text = "unknown command" + nameOf(strings.Trim(typed, `"`)) + rest[len(typed):]
		}
		text += " (see `" + strings.Replace(cmd.CommandPath(), "dbq", "dbq help", 1) + "`)"
	}
	a.note("dbq: %s", oneLine(text))
}

// interrupted is the error of an interrupt that came when some work was done.
type interrupted struct{ done string }

func (e *interrupted) Error() string { return "interrupted: " + e.done }
func (e *interrupted) Unwrap() error { return context.Canceled }
