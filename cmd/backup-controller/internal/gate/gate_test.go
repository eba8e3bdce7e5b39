package gate

import "testing"

func TestAGateIsClosedUntilAllWhoClosedItHaveOpenedIt(t *testing.T) {
	g := &Gate{}
	first, second := g.Close("a"), g.Close("a")
	first()
	first()
	if !g.Closed("a") || g.Closed("b") {
		t.Error("opened too early, or the wrong one closed")
	}
	if second(); g.Closed("a") {
		t.Error("still closed")
	}
}
