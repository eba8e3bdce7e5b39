//go:build chaos

package chaos

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var changes = flag.String("changes", "", "names of changes to a cluster with a Pooler, parted by commas; all where left out")

// TestClientsOfAPooler makes each change to a cluster that has a Pooler, and prints and keeps what clients noticed.
func TestClientsOfAPooler(t *testing.T) {
	chosen, err := FindChanges(strings.FieldsFunc(*changes, func(c rune) bool { return c == ',' })...)
	if err != nil {
		t.Fatal(err)
	}
	var results []PooledResult
	t.Cleanup(func() {
		content, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(*out), "chaos-pooler.json"), content, 0o644); err != nil {
			t.Error(err)
		}
		fmt.Printf("\nFor a page:\n\n%s", PooledMarkdown(results))
	})
	subject := NewPooled(t, options(Sync, Renewal(*renewal), Plain))
	for number := range *rounds {
		for _, change := range chosen {
			result := PooledResult{Change: change.Name, Round: number + 1, Unfinished: true}
			t.Run(fmt.Sprintf("%s %d", change.Name, number+1), func(t *testing.T) {
				result = subject.TryPooled(t, change, number+1)
			})
			results = append(results, result)
		}
	}
}
