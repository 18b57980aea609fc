package main

import (
	"bufio"
	"io"
	"strings"
)

// table is rows of text in columns. text/tabwriter aligns all columns to the same side, and names want another than numbers.
type table struct {
	colour    bool
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
	for n, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			fill := strings.Repeat(" ", widths[i]-cellWidth(cell))
			if i > 0 {
				line.WriteString("  ")
			}
			if i >= t.rightFrom {
				line.WriteString(fill + t.styled(n, cell))
			} else {
				line.WriteString(t.styled(n, cell) + fill)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.Flush()
}

// styled is a cell as the terminal shows it: the header in bold, states in their colours.
func (t *table) styled(row int, cell string) string {
	switch {
	case !t.colour:
		return cell
	case row == 0:
		return bold.apply(cell)
	}
	return styleOf(cell).apply(cell)
}
