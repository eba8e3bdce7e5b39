package subset

import (
	"maps"
	"slices"
	"testing"
)

func TestSomeAreChosenInTheirOrderAndEachOneSometimes(t *testing.T) {
	cases := map[string]int{"a": 1, "b": 2, "c": 3, "d": 4}
	if all := Of(4, cases); !maps.Equal(all, cases) {
		t.Errorf("4 of 4 are %v", all)
	}
	if !testing.Short() {
		if all := Of(2, cases); !maps.Equal(all, cases) {
			t.Errorf("in full, there are %v", all)
		}
		return
	}
	seen := map[int]bool{}
	for range 200 {
		some := Some(2, []int{1, 2, 3, 4})
		if len(some) != 2 || !slices.IsSorted(some) {
			t.Fatalf("2 of 4 are %v", some)
		}
		for name, value := range Of(2, cases) {
			if cases[name] != value {
				t.Fatalf("%s is %d", name, value)
			}
			seen[value] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("only %v were chosen", seen)
	}
}

func TestOneRunInThreeHasATest(t *testing.T) {
	ran := 0
	for range 300 {
		t.Run("", func(t *testing.T) {
			OneIn(t, 3)
			ran++
		})
	}
	if testing.Short() && (ran < 30 || ran > 200) || !testing.Short() && ran != 300 {
		t.Errorf("%d of 300", ran)
	}
}
