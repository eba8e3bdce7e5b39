package registers

import (
	"testing"
	"time"
)

func TestAHistoryIsLinearizableOrTheRegisterIsNamed(t *testing.T) {
	write := func(client int, value int64, call, answer time.Duration) Operation {
		return Operation{Client: client, Register: 7, Write: true, Value: value, Call: call, Answer: answer}
	}
	read := func(client int, value int64, call, answer time.Duration) Operation {
		return Operation{Client: client, Register: 7, Value: value, Call: call, Answer: answer}
	}
	for _, test := range []struct {
		name    string
		history []Operation
		fine    bool
	}{
		{"nothing", nil, true},
		{"one after the other", []Operation{read(1, 0, 0, 1), write(1, 10, 2, 3), read(2, 10, 4, 5)}, true},
		{"an acknowledged write is gone", []Operation{write(1, 10, 0, 1), read(2, 0, 2, 3)}, false},
		{"a server that was replaced still answers", []Operation{write(1, 10, 0, 1), write(1, 11, 2, 3), read(2, 10, 4, 5)}, false},
		{"a read beside a write sees either", []Operation{write(1, 10, 0, 5), read(2, 0, 1, 2), read(3, 10, 3, 4)}, true},
		{"but not the new value and then the old one", []Operation{write(1, 10, 0, 9), read(2, 10, 1, 2), read(3, 0, 3, 4)}, false},
		{"a write without an answer happened", []Operation{write(1, 10, 0, Open), read(2, 10, 5, 6)}, true},
		{"a write without an answer never happened", []Operation{write(1, 10, 0, Open), read(2, 0, 5, 6)}, true},
		{"a write without an answer happens late", []Operation{write(1, 10, 0, Open), write(2, 20, 1, 2), read(2, 20, 3, 4), read(2, 10, 5, 6)}, true},
		{"and was seen, and is gone", []Operation{write(1, 10, 0, Open), read(2, 10, 3, 4), read(2, 0, 5, 6)}, false},
		{"a value that nobody wrote", []Operation{read(2, 5, 0, 1)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			other := Operation{Client: 9, Register: 8, Write: true, Value: 1, Answer: 1}
			verdict := Check(append(test.history, other), time.Minute)
			if verdict.Unknown || (len(verdict.Operations) == 0) != test.fine {
				t.Fatalf("%+v", verdict)
			}
			if !test.fine && (verdict.Register != 7 || len(verdict.Operations) != len(test.history)) {
				t.Errorf("%+v", verdict)
			}
		})
	}
}
