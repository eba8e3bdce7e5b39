package elect

import "testing"

func TestNoTimelineIsBegunTwice(t *testing.T) {
	b := start(t, "b", required(1)).sees(held(1, "b")).serves(Replica, 1, 100).passes(limits.Expire)
	if r := b.takes(); r.Timeline != 2 {
		t.Fatalf("%+v", r)
	}
	r := b.writes(Written) // and dies at once
	again := start(t, "b", required(1)).sees(r)
	if r := again.takes(); r.Timeline != 2 {
		t.Errorf("what was kept for it: %+v", r)
	}
	c := start(t, "c", asynchronous())
	r.Members, r.Quorum = members("c"), 0
	c.sees(r).serves(Replica, 1, 100).passes(limits.Expire)
	if r := c.takes(); r.Timeline != 3 {
		t.Errorf("b may have begun timeline 2: %+v", r)
	}
}

func TestAServerThatIsPastItsTimelineGetsALaterOne(t *testing.T) {
	b := start(t, "b", required(1)).sees(held(1, "b")).serves(Replica, 1, 100).passes(limits.Expire)
	b.writes(Written)
	b.serves(Replica, 2, 100) // its promotion had begun before it died
	if r := b.takes(); r.Timeline != 3 {
		t.Errorf("%+v", r)
	}
	b.writes(Written)
	if b.acts.Want.Timeline != 3 {
		t.Errorf("%+v", b.acts.Want)
	}
}
