package settings

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// sizes are the columns of the table in docs/tuning.md: memory, CPU and volume of an instance.
var sizes = []struct {
	memory, cpuMillis, volume int64
}{
	{256 << 20, 500, 1 << 30}, {1 << 30, 1000, 10 << 30}, {16 << 30, 4000, 200 << 30}, {256 << 30, 32000, 2 << 40},
}

const tuningPage = "../../../../docs/tuning.md"

func TestTheTableOfDefaultsSaysWhatIsSet(t *testing.T) {
	page, err := os.ReadFile(tuningPage)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for i, pod := range sizes {
		config := agentapi.Config{Instances: 3, MemoryBytes: pod.memory, CPUMillis: pod.cpuMillis}
		replication := Replication{VolumeBytes: pod.volume, SegmentBytes: postgres.DefaultSegSize, Image: Image{Statements: true, LZ4: true}}
		for _, p := range postgres.MergeParameters(computed(config, 18, replication)...) {
			if want[p.Name] == nil {
				want[p.Name] = make([]string, len(sizes))
			}
			want[p.Name][i] = p.Value
		}
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (.+) \\|$")
	has := map[string]string{}
	for _, match := range row.FindAllStringSubmatch(string(page), -1) {
		has[match[1]] = match[2]
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		cells := strings.Join(want[name], " | ")
		if !strings.HasPrefix(has[name], cells+" | ") {
			t.Errorf("docs/tuning.md has no row that begins with\n%s\nbut: %s", fmt.Sprintf("| `%s` | %s |", name, cells), has[name])
		} else if reason, _, _ := strings.Cut(strings.TrimPrefix(has[name], cells+" | "), " | "); len(reason) < 10 {
			t.Errorf("%s has no reason", name)
		}
		delete(has, name)
	}
	for name := range has {
		t.Errorf("docs/tuning.md has a row for %s, which is not set", name)
	}
}
