//go:build chaos

package chaos

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"howdah.dev/howdah/test/testkit/writes"
)

var (
	ways    = flag.String("ways", "", "beginnings of the names of ways back, parted by commas; all where left out")
	waysOut = flag.String("ways-out", "../../build/ways-back.json", "file for the figures of each round")
)

// TestNoRowIsLostOnAWayBack replaces the data of a cluster that is written to, leads back, and looks for every row that was
// acknowledged on data that nobody gave up.
func TestNoRowIsLostOnAWayBack(t *testing.T) {
	report := &Report{}
	t.Cleanup(func() {
		if err := report.Save(*waysOut); err != nil {
			t.Error(err)
		}
		fmt.Println()
		if err := report.Print(os.Stdout); err != nil {
			t.Error(err)
		}
		fmt.Printf("\nFor a page:\n\n%s", report.Markdown())
	})
	subject := New(t, Options{Replication: Async, Version: int32(*upgradeFrom)})
	subject.until("an empty table", recoveryTime, func(ctx context.Context) error { return writes.Clear(ctx, subject.target) })
	subject.Backup(BaseBackup, name)
	chosen := strings.FieldsFunc(*ways, func(c rune) bool { return c == ',' })
	for number := range *rounds {
		for _, way := range WaysBack() {
			if len(chosen) > 0 && !slices.ContainsFunc(chosen, func(name string) bool { return strings.HasPrefix(way.Name, name) }) {
				continue
			}
			result := Result{Fault: way.Name, Replication: Async, Round: number + 1, Unfinished: true}
			if !t.Run(fmt.Sprintf("%s %d", way.Name, number+1), func(t *testing.T) { result = subject.TryBack(t, way, number+1) }) {
				t.Logf("%s is not well", way.Name)
			}
			*report = append(*report, result)
		}
	}
}
