package dialect

import (
	"strings"

	"github.com/dbq-go/dbq/state"
)

// A Migration is one step of the schema. Its statements run in order, in one transaction if the engine's DDL is
// transactional. Otherwise each of them must be safe to repeat.
type Migration struct {
	Version int
	Title   string
	// Compatible is the oldest version whose programs work with the tables after this step. For a step that adds a
	// nullable column it is the version before. Such programs open, and continue beside newer ones during a rolling
	// deploy. Zero is Version itself.
	Compatible int
	Statements []string
	// Comments explain the statement with the same index, in lines that begin with --. They are printed, but never sent.
	Comments []string
}

// tables are the tables and views that a schema may have. {lease} is for engines that keep renewals apart, and
// {enqueue} is the view through which programs in other languages insert tasks.
var tables = []string{"task", "tasks", "enqueue", "lease", "unique_key", "step", "need", "attempt",
	"attempts", "archive", "archived", "kv", "key_rate", "audit", "stat", "migration"}

// Filler returns a function that fills in a text what more gives in pairs of old and new, and:
//
//   - {task} and each other table by its qualified name, {prefix}, {schema}, and {owner}, which stands before a
//     qualified name that is no table's, the prefix included;
//   - {exhausted}, the condition on a row whose lease expired that it has no attempt left, and {next_attempt} and
//     {next_lapses}, the values of attempt and lapses when it is taken over (see kit.TakeOver);
//   - {purgeable}, the condition on the rows that Purge removes.
//
// Other names in braces stay, such as {rows} and {unpaused}: the core fills them in.
func (n Names) Filler(more ...string) func(text string) string {
	purge, _ := state.Find(state.Purge, state.Operator)
	pairs := []string{"{prefix}", n.Prefix, "{schema}", n.Schema, "{owner}", n.Table(""),
		"{exhausted}", exhausted, "{next_attempt}", nextAttempt, "{next_lapses}", nextLapses,
		"{purgeable}", state.Guard(purge, "due")}
	for _, name := range tables {
		pairs = append(pairs, "{"+name+"}", n.Table(name))
	}
	return strings.NewReplacer(append(pairs, more...)...).Replace
}
