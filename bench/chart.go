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

// chart draws a figure as bars, one panel for each group, with a line from the minimum to the maximum.
func chart(rows []result, f figure) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	y, group, scale := 8, "", 0.0
	at := func(v float64) float64 { return chartLeft + v/scale*(chartWidth-chartLeft-chartRight) }
	for _, row := range rows {
		v, ok := row.Figures[f]
		if !ok {
			continue
		}
		if row.Group != group {
			group, scale = row.Group, 1
			for _, other := range rows {
				if other.Group == group {
					scale = max(scale, other.Figures[f][2])
				}
			}
			y += headHeight
			line(`<text x="8" y="%d" font-weight="bold">%s: %s (%s)</text>`, y-12, html.EscapeString(group), f, f.unit())
		}
		text, middle := y+barHeight-3, y+barHeight/2
		line(`<text x="%d" y="%d" text-anchor="end">%s</text>`, chartLeft-8, text, html.EscapeString(row.Contender))
		line(`<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`,
			chartLeft, y, at(v[0])-chartLeft, barHeight, colors[row.Role])
		line(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#111827"/>`, at(v[1]), middle, at(v[2]), middle)
		line(`<text x="%.1f" y="%d">%s</text>`, at(v[2])+6, text, amount(v[0]))
		y += rowHeight
	}
	const head = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"` +
		` font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
`
	return fmt.Sprintf(head, chartWidth, y+8, chartWidth, y+8) + b.String() + "</svg>\n"
}
