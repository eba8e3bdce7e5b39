//go:build chaos

package chaos

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

var (
	rounds      = flag.Int("rounds", 1, "how often each fault is tried")
	faults      = flag.String("faults", "", "names of faults, parted by commas; all where left out")
	replication = flag.String("replication", "async,sync", "kinds of replication, parted by commas")
	renewal     = flag.String("renewal", "APIServer", "how the primary keeps its lease: APIServer, Members, or both, parted by commas")
	number      = flag.Int("number", 1, "of replicas that a synchronous commit waits for")
	preferred   = flag.Bool("preferred", false, "durability: Preferred, where replication is synchronous")
	size        = flag.Int("instances", 3, "of the cluster")
	oldAgent    = flag.String("old-agent", "", "image of an agent of another version, in the cluster; without it, the faults that need one are left out")
	alone       = flag.Bool("alone", false, "take the controllers away while faults are tried")
	version     = flag.Int("version", 17, "major version of PostgreSQL")
	upgradeFrom = flag.Int("upgrade-from", 15, "major version that the upgrade of the life cycle begins with")
	upgradeTo   = flag.Int("upgrade-to", 18, "major version that it leads to")
	out         = flag.String("out", "../../build/chaos.json", "file for the figures of each round")
)

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestFaults tries each fault on a cluster of each kind, and prints and keeps what came of it.
func TestFaults(t *testing.T) {
	chosen, err := Find(strings.FieldsFunc(*faults, func(c rune) bool { return c == ',' })...)
	if err != nil {
		t.Fatal(err)
	}
	report := &Report{}
	t.Cleanup(func() {
		if err := report.Save(*out); err != nil {
			t.Error(err)
		}
		fmt.Println()
		if err := report.Print(os.Stdout); err != nil {
			t.Error(err)
		}
		fmt.Printf("\nFor a page:\n\n%s", report.Markdown())
	})
	for kind := range strings.SplitSeq(*replication, ",") {
		if kind != string(Async) && kind != string(Sync) {
			t.Fatalf("no replication %q: write async, sync or both", kind)
		}
		if kind == string(Sync) && !*preferred && *size-1 <= *number {
			t.Fatalf("with %d instances and commits that wait for %d replicas, no row is written while one is away, so that no round would end: "+
				"write PREFERRED=true, a smaller NUMBER, or more INSTANCES", *size, *number)
		}
		for keeps := range strings.SplitSeq(*renewal, ",") {
			t.Run(kind+" "+keeps, func(t *testing.T) { tryAll(t, chosen, Replication(kind), Renewal(keeps), report) })
		}
	}
}

// tryAll tries the faults that one cluster will do for together, and the others after that.
func tryAll(t *testing.T, chosen []Fault, kind Replication, keeps Renewal, report *Report) {
	for _, volumes := range []Volumes{Plain, Limited, Stalling} {
		these := slices.DeleteFunc(slices.Clone(chosen), func(f Fault) bool {
			return f.Volumes != volumes || *alone && f.NeedsControllers || *oldAgent == "" && f.TwoAgents
		})
		if len(these) == 0 {
			continue
		}
		subject := New(t, options(kind, keeps, volumes))
		bringBack := func() {}
		if *alone {
			bringBack = subject.LeaveAlone()
		}
		for _, fault := range these {
			tryOften(t, subject, fault, report)
		}
		bringBack()
	}
}

// options of a cluster, as the command line asks for.
func options(kind Replication, keeps Renewal, volumes Volumes) Options {
	return Options{
		Replication: kind, Renewal: keeps, Version: int32(*version), Volumes: volumes, OldAgent: *oldAgent, Instances: int32(*size), Number: int32(*number), Preferred: *preferred,
	}
}

func tryOften(t *testing.T, subject *Subject, fault Fault, report *Report) {
	for number := range *rounds {
		result := Result{Fault: fault.Name, Replication: subject.Replication, Renewal: subject.Renewal, Round: number + 1, Unfinished: true}
		t.Run(fmt.Sprintf("%s %d", fault.Name, number+1), func(t *testing.T) {
			result = subject.Try(t, fault, number+1)
		})
		*report = append(*report, result)
	}
}
