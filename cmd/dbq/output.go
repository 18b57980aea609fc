package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/spf13/cobra"
	"golang.org/x/text/width"
)

// say prints a line of the result.
func (a *app) say(format string, args ...any) error {
	_, err := fmt.Fprintln(a.out, visible(fmt.Sprintf(format, args...)))
	return err
}

// result prints the result of a command: a line, or with --json a document. If doc is nil, --json prints nothing: the
// exit code is enough.
func (a *app) result(doc any, format string, args ...any) error {
	switch {
	case !a.json:
		return a.say(format, args...)
	case doc == nil:
		return nil
	}
	return a.printJSON(doc)
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

// watch prints the list that fetch returns, once or repeatedly.
func (l listing[T]) watch(
	ctx context.Context, a *app, c *dbq.Client, every time.Duration, fetch func() ([]T, error),
) error {
	return a.watch(ctx, every, func() error {
		items, err := fetch()
		if err != nil {
			return err
		}
		return l.print(ctx, a, c, items)
	})
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
	t := table{color: a.color, rightFrom: l.rightFrom}
	t.add(l.columns...)
	for _, item := range items {
		t.add(l.row(item, now)...)
	}
	return t.write(a.out)
}

// table is rows of text in columns. text/tabwriter aligns all columns to one side; here numbers go to the right.
type table struct {
	color     bool
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
	"running": green, "paused": yellow, "stopping": yellow, "dead": red,
}

const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// styled returns a cell with its terminal style: the header in bold, and other cells in the style of their first
// word.
func (t *table) styled(row int, cell string) string {
	word, _, _ := strings.Cut(cell, " ")
	style := wordStyles[word]
	if row == 0 {
		style = bold
	}
	if !t.color || style == "" || cell == "" {
		return cell
	}
	return "\x1b[" + style + "m" + cell + "\x1b[0m"
}

// wantsColor reports whether to print colors: on a terminal that has them, unless NO_COLOR is set
// (https://no-color.org).
func (s surroundings) wantsColor() bool {
	return isTerminal(s.out) && s.getenv("NO_COLOR") == "" && s.getenv("TERM") != "dumb"
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

// writeBytes writes a payload or a result: unchanged to a file or a pipe, and escaped to a terminal.
func writeBytes(w io.Writer, data []byte) error {
	if isTerminal(w) {
		data = []byte(visibleLines(string(data)))
	}
	_, err := w.Write(data)
	return err
}

// plural returns text such as "1 task" or "2 tasks".
func plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// brief is the beginning of a text, on one line.
func brief(text string, most int) string {
	line := []rune(oneLine(text))
	if len(line) <= most {
		return string(line)
	}
	return string(line[:most-1]) + "…"
}

// oneLine is a text without its line ends.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

const (
	watchDefault = 2 * time.Second
	watchLeast   = 100 * time.Millisecond
)

// addWatch adds --watch, alone or as --watch=TIME.
func addWatch(cmd *cobra.Command, every *time.Duration) {
	text := duration.Format(watchDefault)
	f := durationVar(cmd.Flags(), every, "watch", 0,
		"repeat the output every `TIME` until Ctrl-C (--watch alone: "+text+")")
	f.least = watchLeast
	cmd.Flags().Lookup("watch").NoOptDefVal = text
}

// watch shows something once, or repeatedly until ctx ends. On a terminal it stays in one place. It continues while
// the database cannot be reached.
func (a *app) watch(ctx context.Context, every time.Duration, show func() error) error {
	if every == 0 {
		return show()
	}
	out := a.out
	defer func() { a.out = out }()
	for {
		var page bytes.Buffer
		a.out = &page
		err := show()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, dbq.ErrUnavailable):
			return err
		}
		if isTerminal(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J") // to the upper left, and clear
		}
		if err != nil {
			a.note("dbq: %s", oneLine(err.Error()))
		}
		if _, err := io.Copy(out, &page); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// progress reports the progress of work: on a terminal in one line that is rewritten, elsewhere in a line from time
// to time.
type progress struct {
	w        io.Writer
	terminal bool
	last     time.Time
	shown    bool
}

const (
	terminalEvery = 100 * time.Millisecond
	lineEvery     = 5 * time.Second
)

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w), last: time.Now()}
}

// update shows the progress, unless it did so a moment ago.
func (p *progress) update(format string, args ...any) {
	every := lineEvery
	if p.terminal {
		every = terminalEvery
	}
	if time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	if p.shown = p.terminal; p.shown {
		fmt.Fprint(p.w, "\r\x1b[K"+visible(fmt.Sprintf(format, args...)))
		return
	}
	p.line(format, args...)
}

// line writes a line that stays.
func (p *progress) line(format string, args ...any) {
	p.end()
	fmt.Fprintln(p.w, visible(fmt.Sprintf(format, args...)))
}

// end clears the updating line.
func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// visible returns a text on one line. It escapes, as in a Go string, every character that a terminal would act upon,
// hide or reorder: control characters including line ends, bidirectional and zero-width characters, and bytes that
// are not UTF-8. dbq passes everything that it prints for people through visible or visibleLines, because tasks, rows
// and errors can contain text from others.
func visible(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	marks := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if marks++; !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		}
		switch {
		case unicode.IsPrint(r) && !isBlank(r) && marks <= maxMarks && (r != utf8.RuneError || size > 1):
			b.WriteString(text[i : i+size])
		default:
			b.WriteString(strings.Trim(strconv.QuoteToASCII(text[i:i+size]), `"`))
		}
		i += size
	}
	return b.String()
}

// maxMarks limits the combining marks on one character: many of them would cover the lines above and below.
const maxMarks = 2

// isPlain reports whether a text is ASCII that can be printed.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// isBlank reports whether a character counts as printable but shows nothing.
func isBlank(r rune) bool {
	switch r {
	// Hangul fillers, an empty braille cell, the grapheme joiner
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800', '\u034f':
		return true
	}
	return unicode.Is(unicode.Variation_Selector, r)
}

// visibleLines is visible for a text of several lines, such as a report or an SQL script: line ends and tabs stay.
func visibleLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.CutSuffix(line, "\n")
		for i, cell := range strings.Split(line, "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(visible(cell))
		}
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// visibleJSON escapes in a JSON text the characters that visible escapes. Such characters occur only in its strings.
func visibleJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, hidesInJSON) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case !hidesInJSON(r):
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.Bytes()
}

func hidesInJSON(r rune) bool { return r >= 0x7f && (!unicode.IsPrint(r) || isBlank(r)) }

// cellWidth returns the number of terminal cells of a visible text.
func cellWidth(text string) int {
	if isPlain(text) {
		return len(text)
	}
	n := 0
	for _, r := range text {
		kind := width.LookupRune(r).Kind()
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me):
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth: // and emoji
			n += 2
		default:
			n++
		}
	}
	return n
}
