package chaos

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheTableHasTheMedianAndTheExtremesOfEachFault(t *testing.T) {
	report := Report{
		{Fault: "node-kill", Replication: Async, Round: 1, GapSeconds: 9, NewConnectionGap: 10, WholeAgainSeconds: 30, Failovers: 1},
		{Fault: "node-kill", Replication: Sync, Round: 1, GapSeconds: 8, NewConnectionGap: 8, WholeAgainSeconds: 20, Failovers: 1},
		{Fault: "node-kill", Replication: Async, Round: 2, GapSeconds: 11, NewConnectionGap: 11, LostRows: 2, WholeAgainSeconds: 31, Failovers: 1},
		{Fault: "disk-full", Replication: Async, Round: 1, Unfinished: true},
		{Fault: "node-kill", Replication: Async, Round: 3, GapSeconds: 9.5, NewConnectionGap: 10, WholeAgainSeconds: 40, Failovers: 1},
	}
	var out strings.Builder
	if err := report.Print(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 5 {
		t.Fatalf("not a line for each fault and replication:\n%s", out.String())
	}
	want := "node-kill async 3 9.5 s (9.0-11.0) 10.0 s (10.0-11.0) 0-2 0 1 31.0 s (30.0-40.0)"
	if got := strings.Join(strings.Fields(lines[1]), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := strings.Join(strings.Fields(lines[3]), " "); got != "disk-full async 1, 1 of them UNFINISHED - - - - - -" {
		t.Errorf("a round that never ended: %s", got)
	}
	page := strings.Split(report.Markdown(), "\n")
	if len(page) != 6 || page[2] != "| `node-kill` | async | 3 | 2 | 0 | 9.5 s (9.0-11.0) | 10.0 s (10.0-11.0) | 31.0 s (30.0-40.0) |" ||
		page[4] != "| `disk-full` | async | 1, 1 without an end | 0 | 0 | - | - | - |" {
		t.Errorf("the table of the page is\n%s", strings.Join(page, "\n"))
	}
	if median := seconds(report[:2], func(r Result) float64 { return r.GapSeconds }); median != "8.5 s (8.0-9.0)" {
		t.Errorf("of two rounds: %s", median)
	}
}

func TestTheFileHasEveryRoundByItsNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "build", "chaos.json")
	if err := (Report{{Fault: "partition", Replication: Sync, Round: 1}}).Save(file); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rounds []map[string]any
	if err := json.Unmarshal(content, &rounds); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fault", "replication", "round", "gapSeconds", "newConnectionGapSeconds", "lostRows", "doublePrimaryAcks", "wholeAgainSeconds"} {
		if _, there := rounds[0][name]; !there {
			t.Errorf("%s is missing in %s", name, content)
		}
	}
}

func TestFaultsAreFoundByName(t *testing.T) {
	found, err := Find("partition", "switchover")
	if err != nil || len(found) != 2 || found[0].Name != "partition" || found[1].Name != "switchover" {
		t.Errorf("got %v, %v", found, err)
	}
	if all, err := Find(); err != nil || len(all) != len(Faults()) {
		t.Errorf("without a name there are %d, %v", len(all), err)
	}
	if _, err := Find("earthquake"); err == nil || !strings.Contains(err.Error(), "partition") {
		t.Errorf("an unknown one: %v", err)
	}
}
