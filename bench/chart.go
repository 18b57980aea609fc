package main

import (
	"fmt"
	"html"
	"strings"
)

// Dimensions of a chart, in pixels.
const (
	chartWidth = 860
	chartLeft  = 330 // where bars begin
	chartRight = 110 // for the numbers
	barHeight  = 14
	rowHeight  = 20
	headHeight = 34
)

var colors = map[role]string{ours: "#2563eb", peer: "#d97706", floor: "#9ca3af"}

// chart draws the figures of a group as bars, one panel for each figure, with a line from the minimum to the maximum.
func chart(rows []result) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	y, f, scale := 8, figure(""), 0.0
	for i, row := range rows {
		if row.Figure != f {
			f, scale = row.Figure, 0
			for _, other := range rows[i:] {
				if other.Figure == f {
					scale = max(scale, other.Max)
				}
			}
			y += headHeight
			line(`<text x="8" y="%d" font-weight="bold">%s (%s)</text>`,
				y-12, html.EscapeString(string(f)), html.EscapeString(row.Unit))
		}
		at := func(v float64) float64 {
			if scale == 0 {
				return chartLeft
			}
			return chartLeft + v/scale*(chartWidth-chartLeft-chartRight)
		}
		middle := y + barHeight/2
		line(`<text x="%d" y="%d" text-anchor="end">%s</text>`,
			chartLeft-8, y+barHeight-3, html.EscapeString(row.Contender))
		line(`<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`,
			chartLeft, y, at(row.Median)-chartLeft, barHeight, colors[row.Role])
		line(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#111827"/>`, at(row.Min), middle, at(row.Max), middle)
		line(`<text x="%.1f" y="%d">%s</text>`, at(row.Max)+6, y+barHeight-3, amount(row.Median))
		y += rowHeight
	}
	const head = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"` +
		` font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
`
	return fmt.Sprintf(head, chartWidth, y+8, chartWidth, y+8) + b.String() + "</svg>\n"
}
