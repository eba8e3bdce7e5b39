package rollout

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/howdah/test/testkit/cputime"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func limited(most int) (*Limit, *clock, *[]string) {
	c := &clock{time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	l := NewLimit(most, c.now)
	woken := &[]string{}
	l.WakeBy(func(name types.NamespacedName) { *woken = append(*woken, name.Name) })
	return l, c, woken
}

func tries(t *testing.T, l *Limit, name string, want bool) {
	t.Helper()
	if wait := l.Begin(named(name)); (wait == "") != want {
		t.Errorf("%s begins: %v (%q), want %v", name, wait == "", wait, want)
	}
}

func TestClustersBeginInOrder(t *testing.T) {
	l, c, woken := limited(2)
	for _, name := range []string{"d", "a", "c", "b"} {
		c.Time = c.Add(time.Second)
		tries(t, l, name, name == "d" || name == "a")
	}
	if wait := l.Begin(named("b")); !strings.HasSuffix(wait, "values: 2). Clusters ahead in the queue: 1.") {
		t.Errorf("b waits for %q", wait)
	}
	l.Done(named("a"))
	if strings.Join(*woken, "") != "c" {
		t.Errorf("woken: %v", *woken)
	}
	tries(t, l, "b", false) // it is c's turn
	tries(t, l, "c", true)
	tries(t, l, "d", true) // said twice
	if rolling, waiting := l.Counts(); rolling != 2 || waiting != 1 {
		t.Errorf("%d roll and %d wait", rolling, waiting)
	}
}

func TestOneThatHasWithdrawnKeepsNobodyWaiting(t *testing.T) {
	l, c, woken := limited(1)
	tries(t, l, "a", true)
	tries(t, l, "b", false)
	c.Time = c.Add(time.Second)
	tries(t, l, "c", false)
	l.Done(named("a"))
	l.Done(named("b"))
	if strings.Join(*woken, "") != "bc" {
		t.Errorf("woken: %v", *woken)
	}
	tries(t, l, "c", true)
}

func TestOneOfWhichNothingIsHeardKeepsNobodyWaiting(t *testing.T) {
	l, c, _ := limited(1)
	tries(t, l, "a", true)
	tries(t, l, "gone", false)
	c.Time = c.Add(forgetAfter + time.Second)
	tries(t, l, "b", false)
	l.Done(named("a"))
	tries(t, l, "b", true)
}

func TestOneInTroubleKeepsNobodyWaitingForLong(t *testing.T) {
	l, c, _ := limited(1)
	tries(t, l, "a", true)
	tries(t, l, "b", false)
	c.Time = c.Add(patience + time.Second)
	tries(t, l, "b", true)
	tries(t, l, "c", false)
}

func TestZeroIsUnlimited(t *testing.T) {
	l, _, _ := limited(0)
	for _, name := range []string{"a", "b", "c", "d"} {
		tries(t, l, name, true)
	}
}

func TestANewProcessKnowsWhatHasBegun(t *testing.T) {
	l, c, _ := limited(1)
	if err := l.Recover(func() (map[types.NamespacedName]time.Time, error) { return nil, errors.New("away") }); err == nil {
		t.Error("no error")
	}
	for range 2 { // the second is not asked
		if err := l.Recover(func() (map[types.NamespacedName]time.Time, error) {
			return map[types.NamespacedName]time.Time{named("a"): c.Time}, nil
		}); err != nil {
			t.Fatal(err)
		}
		tries(t, l, "b", false)
	}
	l.Done(named("a"))
	if err := l.Recover(func() (map[types.NamespacedName]time.Time, error) {
		return map[types.NamespacedName]time.Time{named("a"): c.Time}, nil
	}); err != nil {
		t.Fatal(err)
	}
	tries(t, l, "b", true)
}

// TestWhoWaitsCostsLittleHoweverManyWait has ten thousand clusters begin, ask again and end. Looking through all that wait for each of them
// takes a hundred times as long.
func TestWhoWaitsCostsLittleHoweverManyWait(t *testing.T) {
	const clusters = 10_000
	l, c, woken := limited(20)
	cputime.Budget(t, 5*time.Second, func() {
		for range 2 { // each asks again while it waits
			for i := range clusters {
				c.Time = c.Add(time.Millisecond)
				l.Begin(named(fmt.Sprint(i)))
			}
		}
		for i := range clusters {
			l.Done(named(fmt.Sprint(i)))
			for _, name := range *woken {
				l.Begin(named(name))
			}
			*woken = nil
		}
	})
	if rolling, waiting := l.Counts(); rolling != 0 || waiting != 0 {
		t.Errorf("%d roll and %d wait", rolling, waiting)
	}
}
