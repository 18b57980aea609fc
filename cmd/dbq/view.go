package main

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
)

// taskView is a task as --json shows it: bytes that are text as text, others as base64, so that a script need not decode what
// a person can read.
type taskView struct {
	dbq.Task
	Parked        bool    `json:"parked,omitempty"`
	Payload       *string `json:"payload,omitempty"`
	PayloadBase64 []byte  `json:"payload_base64,omitempty"`
	Result        *string `json:"result,omitempty"`
	ResultBase64  []byte  `json:"result_base64,omitempty"`

	Attempts []dbq.Attempt `json:"attempts,omitempty"` // the history
}

func viewOf(t dbq.Task) taskView {
	v := taskView{Task: t, Parked: t.Parked()}
	v.Payload, v.PayloadBase64 = textOrBytes(t.Payload)
	v.Result, v.ResultBase64 = textOrBytes(t.Result)
	return v
}

func textOrBytes(b []byte) (*string, []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	text := string(b)
	return &text, nil
}

// isText reports whether bytes are text for people: UTF-8 without control characters other than line ends and tabs.
func isText(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return false
		}
	}
	return true
}

// when says what a task's times mean for somebody who looks now.
func when(t dbq.Task, now time.Time) string {
	switch {
	case t.State == dbq.StateProcessing && t.LeaseUntil.After(now):
		return "lease ends in " + span(t.LeaseUntil.Sub(now))
	case t.State == dbq.StateProcessing:
		return "lease ran out " + span(now.Sub(t.LeaseUntil)) + " ago"
	case t.Parked():
		return "parked " + span(now.Sub(t.Updated)) + " ago"
	case t.Due.IsZero():
		return span(now.Sub(t.Updated)) + " ago"
	case t.Due.After(now):
		return "due in " + span(t.Due.Sub(now))
	}
	return "due for " + span(now.Sub(t.Due))
}

// span is a duration in one or two units.
func span(d time.Duration) string {
	d = max(d, 0)
	days := int(d.Hours()) / 24
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case days < 10:
		return fmt.Sprintf("%dd%02dh", days, int(d.Hours())%24)
	}
	return fmt.Sprintf("%dd", days)
}
