package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

// taskLine is a task as a JSON line, or flags, spell it.
type taskLine struct {
	ID            string            `json:"id"`
	Queue         string            `json:"queue"`
	Kind          string            `json:"kind"`
	Payload       json.RawMessage   `json:"payload"`
	PayloadBase64 *string           `json:"payload_base64"`
	Reference     string            `json:"reference"`
	Priority      int               `json:"priority"`
	Delay         string            `json:"delay"`
	RunAt         string            `json:"run_at"`
	MaxAttempts   int               `json:"max_attempts"`
	Headers       map[string]string `json:"headers"`
}

// parseTaskLine reads one line over what the flags said.
func parseTaskLine(text []byte, flags taskLine) (queue string, t dbq.NewTask, err error) {
	l := taskLine{Queue: flags.Queue, Kind: flags.Kind, Priority: flags.Priority, MaxAttempts: flags.MaxAttempts}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return "", t, usagef("%s", jsonMistake(err))
	}
	if _, err := dec.Token(); err != io.EOF {
		return "", t, usagef("something follows the JSON object")
	}
	if l.Queue == "" {
		return "", t, usagef("no queue: give the line one, or all of them by --queue")
	}
	t, err = l.task(flags)
	return l.Queue, t, err
}

// jsonMistake says what is wrong with a line, in the line's own words.
func jsonMistake(err error) string {
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the JSON object ends too early"
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return "it is a JSON " + wrongType.Value + ", not an object"
	case errors.As(err, &wrongType):
		return fmt.Sprintf("%s cannot be a JSON %s", wrongType.Field, wrongType.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// task makes the task, with flags for what lines take only when they do not say anything of the kind.
func (l taskLine) task(flags taskLine) (dbq.NewTask, error) {
	t := dbq.NewTask{Kind: l.Kind, Reference: l.Reference, Priority: l.Priority, MaxAttempts: l.MaxAttempts}
	if l.Delay == "" && l.RunAt == "" {
		l.Delay, l.RunAt = flags.Delay, flags.RunAt
	}
	var err error
	if l.ID != "" {
		if t.ID, err = uuid.Parse(l.ID); err != nil {
			return t, usagef("the id %q is not a UUID", l.ID)
		}
	}
	if l.Delay != "" {
		if t.Delay, err = parseDuration(l.Delay); err != nil {
			return t, usagef("the delay %q: %w", l.Delay, err)
		}
	}
	if l.RunAt != "" {
		if t.RunAt, err = time.Parse(time.RFC3339, l.RunAt); err != nil {
			return t, usagef("the time %q is not like 2030-01-31T08:00:00Z", l.RunAt)
		}
	}
	if t.Headers = maps.Clone(flags.Headers); t.Headers == nil {
		t.Headers = l.Headers
	} else {
		maps.Copy(t.Headers, l.Headers)
	}
	t.Payload, err = l.payload()
	return t, err
}

func (l taskLine) payload() ([]byte, error) {
	switch {
	case l.Payload != nil && l.PayloadBase64 != nil:
		return nil, usagef("both payload and payload_base64")
	case l.PayloadBase64 != nil:
		b, err := base64.StdEncoding.DecodeString(*l.PayloadBase64)
		if err != nil {
			return nil, usagef("payload_base64 is not base64: %w", err)
		}
		return b, nil
	case l.Payload == nil || string(l.Payload) == "null":
		return nil, nil
	case l.Payload[0] == '"':
		var text string
		err := json.Unmarshal(l.Payload, &text)
		return []byte(text), err
	}
	return l.Payload, nil
}
