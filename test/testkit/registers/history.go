// Package registers has clients read and write a few numbers in a database while something is done to it, and checks that what they
// saw is linearizable: each answer is what it would be if every operation had happened at one moment between its call and its answer.
// It finds what counting rows doesn't: a value that was read and is gone, and a server that still answers after it was replaced.
package registers

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Operation on one register. Its times are since the history began.
type Operation struct {
	Client   int
	Register int64
	Write    bool
	Value    int64 // that was written or read
	Call     time.Duration
	Answer   time.Duration // Open for a write whose outcome isn't known
}

// Open is the answer that never came: the write may have happened at any time since its call, or never.
const Open time.Duration = math.MaxInt64

func (o Operation) String() string {
	verb := "reads"
	if o.Write {
		verb = "writes"
	}
	until := "without an answer"
	if o.Answer != Open {
		until = "answered at " + o.Answer.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("client %d %s %d at %s, %s", o.Client, verb, o.Value, o.Call.Round(time.Millisecond), until)
}

// Verdict on a history.
type Verdict struct {
	// Register whose operations can't be put into an order, and these, in the order of their calls; without operations there is none.
	Register   int64
	Operations []Operation
	// Unknown: there was not enough time to tell.
	Unknown bool
}

// model of one register: a read sees what was written last, and 0 before the first write.
var model = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		o := input.(Operation)
		if o.Write {
			return true, o.Value
		}
		return o.Value == state.(int64), state
	},
}

// Check judges the registers one by one, each within the limit.
func Check(history []Operation, limit time.Duration) Verdict {
	of := map[int64][]Operation{}
	for _, o := range history {
		of[o.Register] = append(of[o.Register], o)
	}
	verdict := Verdict{}
	for register, operations := range of {
		switch porcupine.CheckOperationsTimeout(model, steps(operations), limit) {
		case porcupine.Illegal:
			slices.SortFunc(operations, func(a, b Operation) int { return int(a.Call - b.Call) })
			return Verdict{Register: register, Operations: operations}
		case porcupine.Unknown:
			verdict.Unknown = true
		}
	}
	return verdict
}

// steps are what the checker takes. A write without an answer whose value nobody has read is left out: that it never happened
// explains the others as well, and each open one doubles the work.
func steps(operations []Operation) []porcupine.Operation {
	read := map[int64]bool{}
	for _, o := range operations {
		if !o.Write {
			read[o.Value] = true
		}
	}
	var out []porcupine.Operation
	for _, o := range operations {
		if o.Write && o.Answer == Open && !read[o.Value] {
			continue
		}
		out = append(out, porcupine.Operation{ClientId: o.Client, Input: o, Call: int64(o.Call), Output: o.Value, Return: int64(o.Answer)})
	}
	return out
}
