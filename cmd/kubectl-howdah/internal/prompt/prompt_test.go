package prompt

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

func TestAnInterruptEndsAQuestionThatNobodyAnswers(t *testing.T) {
	in, _ := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if yes, err := New(in, io.Discard).Typed(ctx, "Really? ", "shop"); yes || err == nil || err.Error() != "interrupted: nothing was changed" {
		t.Error(yes, err)
	}
}

func TestEachQuestionGetsItsOwnAnswer(t *testing.T) {
	out := &strings.Builder{}
	p := New(strings.NewReader("no\n shop \nlast"), out)
	for i, want := range []bool{false, true, false, false} {
		if yes, err := p.Typed(t.Context(), "Really? ", "shop"); yes != want || err != nil {
			t.Error(i, yes, err)
		}
	}
	if out.String() != strings.Repeat("Really? ", 4) {
		t.Error(out)
	}
}
