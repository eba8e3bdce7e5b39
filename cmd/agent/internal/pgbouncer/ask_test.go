package pgbouncer

import (
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
)

// An agent tells by that which of two questions was asked later.
func TestWhatAPoolerSaysIsInOrder(t *testing.T) {
	a := newPoller("", 0, nil)
	_, first, _ := a.next()
	pause := func(_ *place, request *agentapi.PoolerRequest) { request.Paused = "1.1" }
	a.tell(pause)
	_, second, _ := a.next()
	if first.Process == "" || second.Process != first.Process || second.Sequence <= first.Sequence {
		t.Errorf("%+v comes before %+v", first, second)
	}
	a.tell(pause) // it is no news
	if _, third, _ := a.next(); third != second {
		t.Errorf("%+v comes after %+v", third, second)
	}
	if _, other, _ := newPoller("", 0, nil).next(); other.Process == first.Process {
		t.Errorf("two processes are %s", other.Process)
	}
}
