package drilljob

import (
	"slices"
	"testing"
)

func TestOnlyTheNamesOfWhatIsDamagedAreTakenOfWhatPgAmcheckSays(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		want   []string
	}{
		"a table and an index": {
			"heap table \"shop.public.orders\", block 0, offset 3:\n    xmin 4 is not in range\n" +
				"heap table \"shop.public.orders\", block 7, offset 1, attribute 2:\n    attribute ends at 9\n" +
				"btree index \"shop.public.orders_pkey\":\n    ERROR:  item order invariant: \"secret\":\n    DETAIL:  x\n",
			[]string{`heap table "shop.public.orders"`, `btree index "shop.public.orders_pkey"`},
		},
		"a name with a comma":   {"heap table \"shop.public.a, b\":\n    ERROR:  could not read\n", []string{`heap table "shop.public.a, b"`}},
		"words of another kind": {"something else\n", []string{"something that it doesn't name"}},
	} {
		if got := complaints(c.output); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}
