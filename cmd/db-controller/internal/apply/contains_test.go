package apply

import (
	"testing"
)

func TestContainsLooksOnlyAtWhatIsWanted(t *testing.T) {
	type m = map[string]any
	type l = []any
	for name, c := range map[string]struct {
		live, wanted any
		want         bool
	}{
		"the same":                              {m{"a": "b"}, m{"a": "b"}, true},
		"more than is wanted":                   {m{"a": "b", "c": "d"}, m{"a": "b"}, true},
		"another value":                         {m{"a": "b"}, m{"a": "c"}, false},
		"nothing where something is wanted":     {m{}, m{"a": m{"b": "c"}}, false},
		"nothing where nothing is wanted":       {m{}, m{"a": m{}}, true},
		"a list with one more":                  {m{"a": l{"x", "y"}}, m{"a": l{"x"}}, false},
		"a list in another order":               {l{"x", "y"}, l{"y", "x"}, false},
		"named elements in another order":       {l{m{"name": "x"}, m{"name": "y", "z": "1"}}, l{m{"name": "y"}, m{"name": "x"}}, true},
		"a named element with another value":    {l{m{"name": "x", "z": "1"}}, l{m{"name": "x", "z": "2"}}, false},
		"one named element in place of another": {l{m{"name": "x"}}, l{m{"name": "y"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := contains(c.live, c.wanted); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
