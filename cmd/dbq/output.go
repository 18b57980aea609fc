package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
)

// say prints a line of the result.
func (a *app) say(format string, args ...any) error {
	_, err := fmt.Fprintln(a.out, visible(fmt.Sprintf(format, args...)))
	return err
}

// done reports a success to a person. A script learns it from the exit code.
func (a *app) done(format string, args ...any) error {
	if a.json {
		return nil
	}
	return a.say(format, args...)
}

// note prints a line for people on stderr. It is not part of the result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.err, visible(fmt.Sprintf(format, args...)))
}

// printJSON prints a JSON document on a line of its own.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.out.Write(visibleJSON(b.Bytes()))
	return err
}

// listing prints a list: a table for people, or with --json a line for each item.
type listing[T any] struct {
	none      string   // the note for an empty list
	columns   []string // the header
	rightFrom int      // columns from here on are numbers
	row       func(item T, now time.Time) []string
	json      func(T) any
}

func (l listing[T]) print(ctx context.Context, a *app, c *dbq.Client, items []T) error {
	if a.json {
		for _, item := range items {
			if err := a.printJSON(l.json(item)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(items) == 0 {
		a.note("%s", l.none)
		return nil
	}
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	t := table{colour: a.colour, rightFrom: l.rightFrom}
	t.add(l.columns...)
	for _, item := range items {
		t.add(l.row(item, now)...)
	}
	return t.write(a.out)
}

// table is rows of text in columns. text/tabwriter aligns all columns to one side; here numbers go to the right.
type table struct {
	colour    bool
	rightFrom int // columns from here on are aligned to the right
	rows      [][]string
}

// add adds a row; the first one is the header. Each cell is made visible, which keeps it on one line.
func (t *table) add(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = visible(cell)
	}
	t.rows = append(t.rows, row)
}

func (t *table) write(w io.Writer) error {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], cellWidth(cell))
		}
	}
	b := bufio.NewWriter(w)
	for n, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			fill := strings.Repeat(" ", widths[i]-cellWidth(cell))
			cell = t.styled(n, cell)
			if i >= t.rightFrom {
				line.WriteString(fill + cell)
			} else {
				line.WriteString(cell + fill)
			}
			line.WriteString("  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.Flush()
}

// wordStyles are the parameters of terminals' escape sequences for words that report a state.
var wordStyles = map[string]string{
	"COMPLETED": green, "PROCESSING": cyan, "ERROR": yellow, "POISON": red,
	"running": green, "paused": yellow, "stopping": yellow, "silent": red,
}

const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// styled is a cell as the terminal shows it: the header in bold, and others in the style of their first word.
func (t *table) styled(row int, cell string) string {
	word, _, _ := strings.Cut(cell, " ")
	style := wordStyles[word]
	if row == 0 {
		style = bold
	}
	if !t.colour || style == "" || cell == "" {
		return cell
	}
	return "\x1b[" + style + "m" + cell + "\x1b[0m"
}

// wantsColour reports whether to use colours on a stream: on a terminal that has them, unless NO_COLOR is set
// (https://no-color.org).
func wantsColour(stream any) bool {
	return isTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// writeBytes writes a payload or a result: to a file or a pipe as it is, and to a terminal made visible.
func writeBytes(w io.Writer, data []byte) error {
	if isTerminal(w) {
		data = []byte(visibleLines(string(data)))
	}
	_, err := w.Write(data)
	return err
}

// plural is "1 task", "2 tasks".
func plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// dash stands for an empty cell.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// brief is the beginning of a text, on one line.
func brief(text string, most int) string {
	line := []rune(oneLine(text))
	if len(line) <= most {
		return string(line)
	}
	return string(line[:most-1]) + "…"
}

// oneLine joins the lines of a text.
func oneLine(text string) string {
	var parts []string
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}
