// Package instancelog reads the logs of several pods as one log, ordered by time.
package instancelog

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Record is one line of the log of a pod.
type Record struct {
	Pod string
	// At is when the container runtime received the line; zero if it didn't say.
	At time.Time
	// Line as the container wrote it.
	Line string
	// fields of a line that is JSON, as the agent writes it; nil for any other.
	fields map[string]any
}

// Parse takes a line apart that the API server has put its time before.
func Parse(pod, line string) Record {
	record := Record{Pod: pod, Line: line}
	if before, after, found := strings.Cut(line, " "); found {
		if at, err := time.Parse(time.RFC3339Nano, before); err == nil {
			record.At, record.Line = at, after
		}
	}
	if strings.HasPrefix(record.Line, "{") {
		if err := json.Unmarshal([]byte(record.Line), &record.fields); err != nil {
			record.fields = nil
		}
	}
	return record
}

// levels by their rank. What has another level, or none, is always shown.
var levels = map[string]int{"debug": 1, "info": 2, "warn": 3, "error": 4}

// Levels are the names of levels, the lowest first.
func Levels() []string {
	return slices.SortedFunc(maps.Keys(levels), func(a, b string) int { return levels[a] - levels[b] })
}

// reaches says whether a record has at least that level.
func (r Record) reaches(level string) bool {
	rank, known := levels[strings.ToLower(r.text("level"))]
	return !known || rank >= levels[level]
}

func (r Record) text(key string) string {
	switch value := r.fields[key].(type) {
	case nil:
		return ""
	case string:
		return value
	default:
		encoded, _ := json.Marshal(value)
		return string(encoded)
	}
}

// Format of the output.
type Format string

const (
	// Text is for people.
	Text Format = "text"
	// JSON has the records as they are, with the name of the pod.
	JSON Format = "json"
)

// Write writes one record.
func (f Format) Write(out io.Writer, r Record) error {
	if f == JSON {
		return writeJSON(out, r)
	}
	return writeText(out, r)
}

func writeJSON(out io.Writer, r Record) error {
	pod, err := json.Marshal(r.Pod)
	if err != nil {
		return err
	}
	if len(r.fields) > 0 {
		_, err = fmt.Fprintf(out, "{\"pod\":%s,%s\n", pod, r.Line[1:])
		return err
	}
	line, err := json.Marshal(r.Line)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "{\"pod\":%s,\"msg\":%s}\n", pod, line)
	return err
}

// leading are the fields that begin a line; severity repeats the level.
var leading = []string{"time", "level", "msg", "logger", "severity"}

func writeText(out io.Writer, r Record) error {
	if r.fields == nil {
		_, err := fmt.Fprintf(out, "%s %s %s\n", stamp(r.At), r.Pod, r.Line)
		return err
	}
	at := r.At
	if own, err := time.Parse(time.RFC3339Nano, r.text("time")); err == nil {
		at = own
	}
	from := r.text("logger")
	if from == "" {
		from = "agent"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %-5s %s: %s", stamp(at), r.Pod, r.text("level"), from, r.text("msg"))
	for _, key := range slices.Sorted(maps.Keys(r.fields)) {
		if !slices.Contains(leading, key) {
			fmt.Fprintf(&b, " %s=%s", key, value(r.text(key)))
		}
	}
	_, err := fmt.Fprintln(out, b.String())
	return err
}

// stamp is in UTC, so that lines of nodes in different zones compare.
func stamp(at time.Time) string {
	if at.IsZero() {
		return strings.Repeat("-", len("2006-01-02T15:04:05.000Z"))
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

// value is quoted if it would not be read as one word.
func value(text string) string {
	if text == "" || strings.ContainsAny(text, " \t\n\"=") {
		return strconv.Quote(text)
	}
	return text
}
