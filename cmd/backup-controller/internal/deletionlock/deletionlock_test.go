package deletionlock

import "testing"

func TestALineageIsLockedUntilAllWhoLockedItHaveUnlockedIt(t *testing.T) {
	locks := &Locks{}
	first, second := locks.Lock("a"), locks.Lock("a")
	first()
	first()
	if !locks.Locked("a") || locks.Locked("b") {
		t.Error("unlocked too early, or the wrong one locked")
	}
	if second(); locks.Locked("a") {
		t.Error("still locked")
	}
}
