// Package prompt asks a person at the terminal.
package prompt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// errInterrupted is the answer of a person who types Ctrl-C.
var errInterrupted = errors.New("interrupted: nothing was changed")

// Prompt asks questions on Out, and reads the answers from In.
type Prompt struct {
	in  *bufio.Reader
	out io.Writer
}

// New asks on out and reads from in.
func New(in io.Reader, out io.Writer) *Prompt { return &Prompt{bufio.NewReader(in), out} }

// Typed says whether a person answers with that text, or fails if the context ends first: Ctrl-C ends only that, and not a read.
func (p *Prompt) Typed(ctx context.Context, question, want string) (bool, error) {
	fmt.Fprint(p.out, question)
	answer := make(chan string, 1)
	go func() {
		line, _ := p.in.ReadString('\n')
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(p.out)
		return false, errInterrupted
	case line := <-answer:
		return strings.TrimSpace(line) == want, nil
	}
}
