package postgres

import (
	"strconv"
	"strings"
	"time"
)

// ArchiveTimeout is what archive_timeout is among these parameters of a user; 0: segments are ended only when they are full.
func ArchiveTimeout(params map[string]string) time.Duration {
	text, set := params["archive_timeout"]
	for _, p := range DefaultParameters(NewestMajor, 0, 0) {
		if !set && p.Name == "archive_timeout" {
			text = p.Value
		}
	}
	timeout, ok := ParseSeconds(text)
	if !ok {
		return 0
	}
	return timeout
}

// ParseSeconds reads the value of a parameter that PostgreSQL takes for seconds where there is no unit.
func ParseSeconds(text string) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz ")
	unit, known := map[string]time.Duration{
		"": time.Second, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
		"min": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}[strings.TrimSpace(text[len(number):])]
	n, err := strconv.ParseFloat(number, 64)
	return time.Duration(n * float64(unit)), known && err == nil && n >= 0
}
