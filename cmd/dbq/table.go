package main

import (
	"bufio"
	"io"
	"strings"
)

// table is rows of text in columns. text/tabwriter aligns all columns to the same side, and names want another than numbers.
type table struct {
	rightFrom int // columns from here on are numbers, aligned to the right
	rows      [][]string
}

// add adds a row. Each cell is made visible, and stays on its line.
func (t *table) add(cells ...string) {
	for i, cell := range cells {
		cells[i] = visible(cell)
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(w io.Writer) error {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], cellWidth(cell))
		}
	}
	b := bufio.NewWriter(w)
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			fill := strings.Repeat(" ", widths[i]-cellWidth(cell))
			if i > 0 {
				line.WriteString("  ")
			}
			if i >= t.rightFrom {
				line.WriteString(fill + cell)
			} else {
				line.WriteString(cell + fill)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.Flush()
}
