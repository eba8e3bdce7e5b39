package supervise

import (
	"errors"
	"testing"
	"time"
)

func TestWhatIsTriedAfterAWayThatEnded(t *testing.T) {
	now := time.Unix(1000, 0)
	refused := errors.New("could not fetch\nthe file")
	for name, c := range map[string]struct {
		before rejoin
		method method
		err    error
		want   rejoin
	}{
		"a rewind that failed is followed by a clone, which says why": {
			method: byRewind, err: refused,
			want: rejoin{next: byClone, message: "could not fetch; the file"},
		},
		"a rewind that succeeded leaves nothing to say": {
			before: rejoin{next: byRewind, message: "diverged"}, method: byRewind,
			want: rejoin{tried: byRewind},
		},
		"a clone that succeeded leaves nothing to say, but counts": {
			before: rejoin{next: byClone, clones: 1, message: "the disk was full"}, method: byClone,
			want: rejoin{tried: byClone, clones: 2, cloned: now},
		},
		"a clone that failed is made again, after a pause": {
			before: rejoin{next: byClone}, method: byClone, err: refused,
			want: rejoin{next: byClone, clones: 1, cloned: now, message: "could not fetch; the file"},
		},
		"a clone that failed where there was nothing to start is no reason to clone what can be started later": {
			method: byClone, err: refused,
			want: rejoin{clones: 1, cloned: now, message: "could not fetch; the file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.before.ended(c.method, c.err, now); c.before != c.want {
				t.Errorf("got %+v, want %+v", c.before, c.want)
			}
		})
	}
}

func TestWhatDidNotHelpIsNotTriedAgain(t *testing.T) {
	j, tried := rejoin{}, []method{}
	for range 4 {
		j.failed("diverged")
		tried = append(tried, j.next)
		if j.message != "diverged" {
			t.Errorf("the reason for %v is %q", j.next, j.message)
		}
		j.ended(j.next, nil, time.Time{}) // with success, so it seemed
	}
	if tried[0] != byRewind || tried[1] != byClone || tried[2] != byClone || tried[3] != byClone {
		t.Errorf("tried were %v", tried)
	}
}

func TestClonesThatLeadNowhereBecomeFewer(t *testing.T) {
	now := time.Now()
	for clones, want := range map[int]time.Duration{0: 0, 1: 5 * time.Second, 3: 20 * time.Second, 7: 320 * time.Second, 50: 10 * time.Minute} {
		j := rejoin{clones: clones, cloned: now}
		if pause := j.pause(now); pause != want {
			t.Errorf("after %d clones the next one waits for %v", clones, pause)
		}
		if pause := j.pause(now.Add(want)); pause > 0 {
			t.Errorf("after %d clones the next one never comes", clones)
		}
	}
}
