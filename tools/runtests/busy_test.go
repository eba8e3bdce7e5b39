package main

import "testing"

func TestTheShareOfBusyProcessorsIsThatBetweenTwoMoments(t *testing.T) {
	from := parseProcessorTime("cpu  100 20 30 400 50 6 7 0 0 0")
	if from != (cpu{working: 163, waiting: 450}) {
		t.Fatalf("%+v", from)
	}
	to := parseProcessorTime("cpu  170 20 35 420 55 6 7 0 0 0")
	if got := busyShare(from, to); got != 0.75 {
		t.Errorf("%v", got)
	}
	if got := busyShare(cpu{}, cpu{}); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
