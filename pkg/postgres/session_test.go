package postgres

import "testing"

func TestOptionsKeepTheSpacesAndBackslashesOfAValue(t *testing.T) {
	got := SessionOptions(map[string]string{"b": `a\b`, "a": "read committed"})
	if want := `-c a=read\ committed -c b=a\\b`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestALimitThatOlderServersDoNotKnowIsForThoseThatDo(t *testing.T) {
	for major, want := range map[int]bool{0: false, 16: false, 17: true, 18: true} {
		if _, has := SessionSettings(major)["transaction_timeout"]; has != want {
			t.Errorf("%d: %v", major, has)
		}
	}
}
