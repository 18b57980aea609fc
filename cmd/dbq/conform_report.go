package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/dbq-go/dbq/conformance"
)

// reportFormats are the ways to write a report, by their names.
var reportFormats = map[string]func(conformance.Report, io.Writer) error{
	"text":     conformance.Report.WriteText,
	"json":     conformance.Report.WriteJSON,
	"junit":    conformance.Report.WriteJUnit,
	"markdown": conformance.Report.WriteMarkdown,
}

// reportTarget is a report that was asked for.
type reportTarget struct {
	format string
	file   string // "" is stdout
}

// reportTargets reads --report, and sees to it that something goes to stdout. Mistakes are told before anything is run.
func (a *app) reportTargets(texts []string) (out []reportTarget, err error) {
	if a.json {
		texts = append(texts, "json")
	}
	onStdout := 0
	for _, text := range texts {
		format, file, named := strings.Cut(text, "=")
		if reportFormats[format] == nil {
			return nil, usagef("--report %s: the formats are text, json, junit and markdown, as in --report junit=FILE", text)
		}
		if named && file == "" {
			return nil, usagef("--report %s: it names no file", text)
		}
		if folder := filepath.Dir(file); named {
			if info, err := os.Stat(folder); err != nil || !info.IsDir() {
				return nil, usagef("--report %s: %q is not a folder", text, folder)
			}
		} else {
			onStdout++
		}
		out = append(out, reportTarget{format, file})
	}
	switch onStdout {
	case 0:
		out = append(out, reportTarget{format: "text"})
	case 1:
	default:
		return nil, usagef("only one report can go to stdout: write --report FORMAT=FILE")
	}
	return out, nil
}

// write writes the report, to a file as a whole or not at all.
func (t reportTarget) write(stdout io.Writer, rep conformance.Report) error {
	var b bytes.Buffer
	if err := reportFormats[t.format](rep, &b); err != nil {
		return err
	}
	if t.format == "text" || t.format == "markdown" {
		text := visibleLines(b.String())
		b.Reset()
		b.WriteString(text)
	} else if t.format == "json" {
		b = *bytes.NewBuffer(visibleJSON(b.Bytes()))
	}
	if t.file == "" {
		_, err := stdout.Write(b.Bytes())
		return err
	}
	return os.WriteFile(t.file, b.Bytes(), 0o644)
}
