// Package command runs programs of the machine and turns their failures into errors that say what was printed.
package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// errorTail is how much of a failed program's output an error carries, in bytes.
const errorTail = 1500

// Command is a program to run once.
type Command struct {
	Args  []string
	Dir   string
	Env   []string // added to the environment of this process
	Stdin io.Reader
}

// Run runs a program to its end.
func Run(ctx context.Context, args ...string) error {
	_, err := Output(ctx, args...)
	return err
}

// Output runs a program to its end and returns what it wrote to its standard output.
func Output(ctx context.Context, args ...string) (string, error) {
	return Command{Args: args}.Output(ctx)
}

// Output runs the program to its end and returns what it wrote to its standard output.
func (c Command) Output(ctx context.Context) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Stdin, &stdout, &stderr
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w%s", strings.Join(c.Args[:min(len(c.Args), 4)], " "), err, tail(stderr.String()+stdout.String()))
	}
	return stdout.String(), nil
}

// tail returns the end of an output as part of an error's text.
func tail(output string) string {
	output = strings.TrimSpace(output)
	if output == "" {
		return ""
	}
	return ": " + output[max(0, len(output)-errorTail):]
}

// Until calls condition until it is true, an error that is final comes back, or the context ends.
// What the context's end interrupted is told by what.
func Until(ctx context.Context, every time.Duration, what string, condition func(context.Context) (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		ok, err := condition(ctx)
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
}
