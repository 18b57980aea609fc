package conformance

import (
	"fmt"
	"io"
	"strings"

	"github.com/dbq-go/dbq/dialect"
)

// WriteMarkdown writes the report as a page: the tested server, the groups, the failed and the skipped cases, and
// then every case with its law and its result under each strategy.
func (r Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Conformance of %s %s\n\n**%s.**\n\n", cell(r.Product), cell(r.Version), cell(r.Verdict()))
	r.writeFacts(&b)
	r.writeSums(&b)
	for _, res := range r.Failed() {
		fmt.Fprintf(&b, "\n## Failed: %s\n\n%s Seen instead:\n\n", cell(res.Name()), cell(res.Case.Law))
		for line := range strings.Lines(strings.Join(res.Failures, "\n") + "\n") {
			b.WriteString("    " + line)
		}
	}
	if gaps := r.gaps(); len(gaps) > 0 {
		b.WriteString("\n## Skipped\n\n| cases | why |\n|---|---|\n")
		for _, g := range gaps {
			fmt.Fprintf(&b, "| %s | %s |\n", cell(strings.Join(g.cases, ", ")), cell(g.reason))
		}
	}
	b.WriteString("\n## Every case\n\nThe numbers are seconds. A case without one under a strategy does not depend on " +
		"it, and was run once.\n")
	for _, g := range r.groups() {
		r.writeGroup(&b, g)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFacts writes the server, the version of dbq, the date and so on.
func (r Report) writeFacts(b *strings.Builder) {
	facts := [][2]string{
		{"product", r.Product}, {"version", r.Version}, {"behind", r.Pooler}, {"dialect", r.Dialect}, {"dbq", r.DBQ},
		{"strategies", join(r.Strategies, ", ")},
		{"date", r.Started.Format("2006-01-02 15:04 UTC")}, {"seed", fmt.Sprint(r.Seed)}, {"load", fmt.Sprint(r.Load)},
		{"conflicts retried", r.conflicts()}, {"left behind", strings.Join(r.Leftovers, ", ")},
		{"only the cases that match", r.Match},
	}
	b.WriteString("| | |\n|---|---|\n")
	for _, f := range facts {
		if f[1] != "" {
			fmt.Fprintf(b, "| %s | %s |\n", f[0], cell(f[1]))
		}
	}
}

// writeSums writes the table of the groups.
func (r Report) writeSums(b *strings.Builder) {
	b.WriteString("\n| group | passed | failed | skipped |\n|---|--:|--:|--:|\n")
	for _, g := range r.groups() {
		fmt.Fprintf(b, "| %s | %d | %d | %d |\n", g.name, g.Count(Passed), g.Count(Failed), g.Count(Skipped))
	}
}

// writeGroup writes a group's cases with a column for each strategy.
func (r Report) writeGroup(b *strings.Builder, g groupReport) {
	fmt.Fprintf(b, "\n<details><summary>%s: %d passed, %d failed, %d skipped</summary>\n\n| case | law |", g.name,
		g.Count(Passed),
		g.Count(Failed), g.Count(Skipped))
	for _, s := range r.Strategies {
		fmt.Fprintf(b, " %s |", s)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("--:|", len(r.Strategies)) + "\n")
	var names []string
	of := map[string]map[dialect.Strategy]Result{}
	for _, res := range g.Results {
		if of[res.Case.Name] == nil {
			names = append(names, res.Case.Name)
			of[res.Case.Name] = map[dialect.Strategy]Result{}
		}
		of[res.Case.Name][res.Strategy] = res
	}
	for _, name := range names {
		line := ""
		law := ""
		for _, s := range r.Strategies {
			text := ""
			if res, ok := of[name][s]; ok {
				law = res.Case.Law
				text = string(res.Status())
				if res.Status() == Passed {
					text = fmt.Sprintf("%.2f", res.Duration.Seconds())
				}
			}
			line += " " + text + " |"
		}
		fmt.Fprintf(b, "| %s | %s |%s\n", cell(name), cell(law), line)
	}
	b.WriteString("\n</details>\n")
}

// cell escapes a text so that it cannot end a table's cell and is shown unchanged.
func cell(text string) string {
	return cellText.Replace(text)
}

var cellText = strings.NewReplacer("&", "&amp;", "<", "&lt;", "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "\n", " ")
