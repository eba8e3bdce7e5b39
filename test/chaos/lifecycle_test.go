//go:build chaos

package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"text/tabwriter"
)

// TestLifecycle measures what the making and the changing of clusters take, prints the medians and keeps the figures.
func TestLifecycle(t *testing.T) {
	measured, order := map[string][]Figure{}, []string{}
	take := func(figures []Figure) {
		for _, f := range figures {
			if measured[f.What] == nil {
				order = append(order, f.What)
			}
			measured[f.What] = append(measured[f.What], f)
		}
	}
	for number := range *rounds {
		t.Run(fmt.Sprint("three ", number+1), func(t *testing.T) {
			s, figures := Creation(t, int32(*version))
			take(figures)
			take(RollingRestart(t, s))
		})
		t.Run(fmt.Sprint("upgrade ", number+1), func(t *testing.T) { take(MajorUpgrade(t, int32(*upgradeFrom), int32(*upgradeTo))) })
		t.Run(fmt.Sprint("twenty ", number+1), func(t *testing.T) { take(Twenty(t, int32(*version))) })
	}
	var medians []Figure
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, what := range order {
		of := measured[what]
		slices.SortFunc(of, func(a, b Figure) int { return int(1000 * (a.Value - b.Value)) })
		median := of[(len(of)-1)/2]
		medians = append(medians, median)
		fmt.Fprintf(table, "%s\t%.1f %s\t(%.1f-%.1f, %d rounds)\n", what, median.Value, median.Unit, of[0].Value, of[len(of)-1].Value, len(of))
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	content, err := json.MarshalIndent(medians, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(*out), "bench", "lifecycle.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(content, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
