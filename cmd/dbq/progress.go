package main

import (
	"fmt"
	"io"
	"time"
)

// progress reports how far work has come: on a terminal in one line that is rewritten, elsewhere now and then a line.
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

// update shows where work is, unless it did so a moment ago.
func (p *progress) update(format string, args ...any) {
	every := lineEvery
	if p.terminal {
		every = terminalEvery
	}
	if time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	if p.terminal {
		p.shown = true
		fmt.Fprint(p.w, "\r\x1b[K"+visible(fmt.Sprintf(format, args...)))
		return
	}
	fmt.Fprintln(p.w, visible(fmt.Sprintf(format, args...)))
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
