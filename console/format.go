package console

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// functions are the functions of the templates.
func functions(prefix string) template.FuncMap {
	return template.FuncMap{
		"isID":    func(id uuid.UUID) bool { return id != uuid.Nil },
		"static":  func(name string) string { return staticPath(prefix, name) },
		"visible": visible,
		"number":  number,
		"age":     age,
		"seconds": seconds,
		"sampled": sampled,
		"measure": measure,
		"took":    took,
		"slots":   slotsOf,
		"percent": percent,
		"typed":   typed,
		"look":    lookOf,
		"ended":   outcomeLook,
		"verb":    func(e state.Event) verb { return verbs[e] },
		"first":   firstLine,
		"initial": initial,
		"engine":  monogram,
		"differs": differences,
		"cron":    cronWords,
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
		"content": func(b []byte) content { return contentOf(b) },
		"lower":   func(s fmt.Stringer) string { return strings.ToLower(s.String()) },
		"version": version,
		"cause":   func(c admin.Cause) causeLook { return causeLooks[c] },
		"short":   func(s fmt.Stringer) string { return shorten(s.String()) },
	}
}

// shorten returns the last part of an id, which differs between ids of the same time.
func shorten(id string) string { return id[max(0, len(id)-12):] }

// number writes a count with separators: 12,345.
func number(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// tasks writes a number of tasks: 1 task, 2,000 tasks.
func tasks[N int | int64](n N) string {
	if n == 1 {
		return "1 task"
	}
	return number(n) + " tasks"
}

// changed begins a sentence about tasks that were changed.
func changed(n int) string {
	if n == 1 {
		return "1 task was "
	}
	return tasks(n) + " were "
}

// age writes a duration by its largest units: 3 d 4 h, 2 h 5 min, 12 min, 5 s, 20 ms.
func age(d time.Duration) string {
	both := func(large int, unit string, small int, of string) string {
		text := strconv.Itoa(large) + " " + unit
		if small > 0 {
			text += " " + strconv.Itoa(small) + " " + of
		}
		return text
	}
	switch d = max(d, 0); {
	case d >= 48*time.Hour:
		return both(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
	case d >= 2*time.Hour:
		return both(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	case d >= 2*time.Minute:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d >= time.Second:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
}

// content is a payload, result or progress as a page shows it.
type content struct {
	Text   string
	Form   string // "JSON", "text" or "bytes"
	Length int
	Cut    bool // Text is only the beginning
}

// Bounds of the parts of a payload that a page shows.
const (
	maxShown    = 64 << 10 // bytes of it
	maxIndented = 4 * maxShown
	maxDepth    = 100 // of JSON that is indented
)

// maxChecked is how much is read to find out whether it is JSON, in bytes. A page that refreshes itself does so often.
const maxChecked = 4 << 20

// contentOf returns bytes as a page shows them: JSON indented with its numbers as they are written, text as it is, and
// other bytes in hexadecimal. JSON that indenting would make much larger is shown as it is.
func contentOf(b []byte) content {
	c := content{Length: len(b), Form: "text"}
	if !utf8.Valid(b) {
		c.Form = "bytes"
		c.Cut = len(b) > maxShown/4
		c.Text = hex.Dump(b[:min(len(b), maxShown/4)])
		return c
	}
	isJSON := len(b) <= maxChecked && json.Valid(b)
	if c.Cut = len(b) > maxShown; c.Cut {
		b = b[:maxShown]
	}
	c.Text = strings.ToValidUTF8(string(b), "") // the cut may be within a character
	if isJSON {
		c.Form = "JSON"
		var pretty bytes.Buffer
		if !c.Cut && mayIndent(b) && json.Indent(&pretty, b, "", "  ") == nil {
			c.Text = pretty.String()
		}
	}
	c.Text = visible(c.Text)
	return c
}

// visible writes the characters of a text that are not seen as escapes: control characters, and those that change the
// direction of the characters after them, by which a text looks like another one. In JSON they mean the same.
func visible(text string) string {
	hidden := func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' || unicode.Is(unicode.Bidi_Control, r)
	}
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// mayIndent reports whether valid JSON stays within the bounds when it is indented. It counts before anything is
// written: a few kilobytes of brackets would become gigabytes.
func mayIndent(b []byte) bool {
	depth, size, quoted := 0, len(b), false
	for i := 0; i < len(b) && depth <= maxDepth && size <= maxIndented; i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			size += 1 + 2*depth
		case c == '}' || c == ']':
			depth--
			size += 1 + 2*depth
		case c == ',':
			size += 1 + 2*depth
		}
	}
	return depth <= maxDepth && size <= maxIndented
}
