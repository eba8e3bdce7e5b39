package writes

import (
	"strings"
	"testing"
	"time"
)

var noon = time.Now()

// at is an acknowledgement by a server, or by a server on a timeline.
func at(ms int, reign string) Ack {
	server, timeline, _ := strings.Cut(reign, " ")
	return Ack{Row: Row{"c", int64(ms)}, At: noon.Add(time.Duration(ms) * time.Millisecond), Server: server, Timeline: timeline}
}

func sent(ms int, ack Ack) Ack {
	ack.Sent = noon.Add(time.Duration(ms) * time.Millisecond)
	return ack
}

func TestTheLongestGapIsThatWithinTheSpan(t *testing.T) {
	acks := []Ack{at(0, "a"), at(9000, "a"), at(9100, "a"), at(9500, "a"), at(9600, "a")}
	for _, c := range []struct{ from, to, want int }{
		{9000, 9600, 400}, {9100, 9200, 100}, {9000, 12000, 2400}, {20000, 21000, 1000}, {0, 9600, 9000}, {8000, 9050, 1000},
	} {
		got := Longest(acks, at(c.from, "").At, at(c.to, "").At)
		if want := time.Duration(c.want) * time.Millisecond; got != want {
			t.Errorf("from %d to %d it is %s, not %s", c.from, c.to, got, want)
		}
	}
}

func TestAServerThatStillAcceptsWritesIsFoundAndForHowLong(t *testing.T) {
	for name, c := range map[string]struct {
		looks []Ack
		count int
		span  time.Duration
	}{
		"one after the other":         {[]Ack{at(1, "a 1"), at(2, "b 2"), at(3, "b 2")}, 0, 0},
		"an answer that was late":     {[]Ack{at(1, "a 1"), at(20, "b 2"), sent(10, at(30, "a 1"))}, 0, 0},
		"asked after the other began": {[]Ack{at(1, "a 1"), at(20, "b 2"), sent(21, at(30, "a 1")), sent(31, at(42, "a 1"))}, 2, 12 * time.Millisecond},
	} {
		stale := Stale(c.looks)
		if len(stale) != c.count || Span(stale) != c.span {
			t.Errorf("%s: %d over %s", name, len(stale), Span(stale))
		}
	}
}

func TestAnAcknowledgedRowThatIsNotThereIsLost(t *testing.T) {
	acks := []Ack{at(1, "a"), at(2, "a"), at(3, "b")}
	lost := Lost(acks, map[Row]bool{{"c", 1}: true, {"c", 3}: true, {"other", 2}: true})
	if len(lost) != 1 || lost[0].N != 2 {
		t.Errorf("got %v", lost)
	}
}

func TestAnAcknowledgementByAServerThatWasReplacedCounts(t *testing.T) {
	for name, c := range map[string]struct {
		acks    []Ack
		want    int
		present map[Row]bool
	}{
		"one server":                       {[]Ack{at(1, "a"), at(2, "a")}, 0, nil},
		"one after the other":              {[]Ack{at(1, "a"), at(2, "a"), at(3, "b"), at(4, "b")}, 0, nil},
		"the old one continues":            {[]Ack{at(1, "a"), at(2, "b"), at(3, "a"), at(4, "b"), at(5, "a")}, 2, nil},
		"one of its answers was late":      {[]Ack{at(1, "a"), at(2, "b"), at(3, "a")}, 0, map[Row]bool{{"c", 3}: true}},
		"told by clients in another order": {[]Ack{at(4, "b"), at(3, "b"), at(1, "a"), at(2, "a")}, 0, nil},
		"back with another timeline":       {[]Ack{at(1, "a 1"), at(2, "b 2"), at(3, "a 3")}, 0, nil},
		"the first of three":               {[]Ack{at(1, "a"), at(2, "b"), at(3, "c"), at(4, "b"), at(5, "a")}, 2, nil},
		"asked after the other one began":  {[]Ack{at(1, "a"), at(2, "b"), sent(3, at(4, "a"))}, 1, map[Row]bool{{"c", 4}: true}},
	} {
		if got := Doubled(c.acks, c.present); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := Failovers([]Ack{at(1, "a 1"), at(2, "b 2"), at(3, "a 3"), at(4, "c 3")}); got != 2 {
		t.Errorf("%d failovers", got)
	}
}
