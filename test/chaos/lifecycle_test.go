//go:build chaos

package chaos

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"howdah.dev/apis/v1alpha1"
)

// TestLifecycle measures what the making and the changing of clusters take, prints the medians and keeps the figures.
func TestLifecycle(t *testing.T) {
	all := figures{}
	for number := range *rounds {
		t.Run(fmt.Sprint("three ", number+1), func(t *testing.T) {
			s, found := Creation(t, int32(*version))
			all.take(found)
			all.take(RollingRestart(t, s))
		})
		t.Run(fmt.Sprint("upgrade ", number+1), func(t *testing.T) {
			all.take(MajorUpgrade(t, Upgraded{From: int32(*upgradeFrom), To: int32(*upgradeTo), Gigabytes: 1}))
		})
		t.Run(fmt.Sprint("twenty ", number+1), func(t *testing.T) { all.take(Twenty(t, int32(*version))) })
	}
	all.keep(t, "lifecycle.json")
}

var scale = flag.String("scale", "1,5", "sizes of the databases of TestHowFilesAreTransferred in GB, parted by commas")

// TestHowFilesAreTransferred measures what clients notice of a major upgrade that copies files, and of one that links them, for each size.
func TestHowFilesAreTransferred(t *testing.T) {
	all := figures{}
	for number := range *rounds {
		for text := range strings.SplitSeq(*scale, ",") {
			gigabytes, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			for _, transfer := range []v1alpha1.UpgradeTransfer{v1alpha1.TransferCopy, v1alpha1.TransferLink} {
				t.Run(fmt.Sprintf("%s GB by %s %d", text, transfer, number+1), func(t *testing.T) {
					all.take(MajorUpgrade(t, Upgraded{
						From: int32(*upgradeFrom), To: int32(*upgradeTo), Instances: int32(*size), Gigabytes: gigabytes, Transfer: transfer,
					}))
				})
			}
		}
	}
	all.keep(t, "upgrade.json")
}

// figures of all rounds, by what they are of.
type figures struct {
	measured map[string][]Figure
	order    []string
}

func (f *figures) take(found []Figure) {
	for _, figure := range found {
		if f.measured[figure.What] == nil {
			f.order = append(f.order, figure.What)
		}
		if f.measured == nil {
			f.measured = map[string][]Figure{}
		}
		f.measured[figure.What] = append(f.measured[figure.What], figure)
	}
}

// keep prints the medians, and writes them to a file.
func (f *figures) keep(t *testing.T, name string) {
	t.Helper()
	var medians []Figure
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, what := range f.order {
		of := f.measured[what]
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
	file := filepath.Join(filepath.Dir(*out), "bench", name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(content, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
