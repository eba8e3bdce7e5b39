// Package display shows sizes, times and progress to people.
package display

import (
	"fmt"
	"time"
)

// Bytes writes a size with three digits or so.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 999.5 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	format := "%.1f %ciB"
	if value >= 99.95 {
		format = "%.0f %ciB"
	}
	return fmt.Sprintf(format, value, units[unit])
}

// Time writes a time in UTC, as it can be given back to --to-time. No time is a dash.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.999999Z")
}

// Second is Time without the fraction.
func Second(t time.Time) string { return Time(t.Truncate(time.Second)) }
