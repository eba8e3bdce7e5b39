//go:build chaos

package chaos

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	seed     = flag.Uint64("seed", 0, "what the random faults follow from; 0 draws it")
	faultFor = flag.Duration("faults-for", 25*time.Second, "how long faults happen in an episode")
	without  = flag.String("without", "", "names of random faults to leave out, parted by commas")
)

// TestRandomFaults does random things to a cluster of each kind, several at a time, in episodes: after each all must be whole again,
// and no judge may find anything.
func TestRandomFaults(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	fmt.Printf("SEED=%d\n", *seed)
	report := &Report{}
	t.Cleanup(func() {
		if err := report.Save(*out); err != nil {
			t.Error(err)
		}
		fmt.Printf("\nSEED=%d\n", *seed)
		if err := report.Print(os.Stdout); err != nil {
			t.Error(err)
		}
		fmt.Printf("\nFor a page:\n\n%s", report.Markdown())
	})
	kinds := strings.Split(*replication, ",")
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			subject := New(t, options(Replication(kind), Renewal(*renewal), Plain))
			episodes := Episodes{Seed: *seed, Faults: *faultFor, Without: strings.Split(*without, ",")}
			end := time.Now().Add(time.Duration(*minutes) * time.Minute / time.Duration(len(kinds)))
			for number := 1; time.Now().Before(end) && !t.Failed(); number++ {
				result := Result{Fault: "random", Replication: subject.Replication, Round: number, Unfinished: true}
				t.Run(fmt.Sprint("episode ", number), func(t *testing.T) { result = subject.Episode(t, episodes, number) })
				*report = append(*report, result)
			}
		})
	}
}
