package postmaster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// relayed has a relay read what a server wrote, and returns its records.
func relayed(t *testing.T, literals func() bool, lines ...string) []map[string]any {
	t.Helper()
	return relayedWithin(t, newLimit(), literals, lines...)
}

func relayedWithin(t *testing.T, limit *rate.Limiter, literals func() bool, lines ...string) []map[string]any {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := startRelay(read, slog.New(slog.NewJSONHandler(&out, nil)), literals, limit)
	for _, line := range lines {
		fmt.Fprintln(write, line)
	}
	write.Close()
	<-r.done
	var records []map[string]any
	for line := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n") {
		record := map[string]any{}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
	return records
}

// said is a line of the server's log.
func said(level, text string) string {
	at := time.Date(2026, 11, 25, 1, 2, 3, 0, time.UTC).Format("2006-01-02 15:04:05.000 MST")
	return strings.Join([]string{at, "7", "client backend", "00000", "815", "12", "10.0.0.7", "app", "shop", "psql", level + ":  " + text}, "\x1f")
}

func TestARecordSaysWhoAskedForWhat(t *testing.T) {
	records := relayed(t, nil, said("ERROR", "no"), said("STATEMENT", "SELECT 'x'"))
	if len(records) != 1 {
		t.Fatalf("%v", records)
	}
	for key, want := range map[string]any{
		"msg": "no", "client": "10.0.0.7", "user": "app", "database": "shop", "application": "psql", "transaction": "815", "queryID": "12", "statement": "SELECT ?",
	} {
		if records[0][key] != want {
			t.Errorf("%s is %v, want %v", key, records[0][key], want)
		}
	}
}

func TestLiteralsAreInTheLogOnlyWhereAPersonWantsThem(t *testing.T) {
	records := relayed(t, func() bool { return true }, said("ERROR", "no"), said("STATEMENT", "SELECT 'x'"))
	if len(records) != 1 || records[0]["statement"] != "SELECT 'x'" {
		t.Errorf("%v", records)
	}
}

func TestAFloodOfMessagesIsCutAndItsEndIsNot(t *testing.T) {
	var lines []string
	for i := range 4 * maxBurst {
		lines = append(lines, said("LOG", fmt.Sprint("statement ", i)))
	}
	burst := rate.NewLimiter(0, maxBurst) // however long it takes to read the flood
	records := relayedWithin(t, burst, nil, append(lines, strings.Replace(said("PANIC", "it is over"), "client backend", "startup", 1))...)
	missing := 0.0
	for _, record := range records {
		if n, is := record["missing"].(float64); is {
			missing += n
		}
	}
	if got := len(records); got > maxBurst+2 || missing != 3*maxBurst || records[got-1]["msg"] != "it is over" {
		t.Errorf("%d records, %v missing, the last %v", got, missing, records[got-1])
	}
}
