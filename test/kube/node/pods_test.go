package node

import (
	"bufio"
	"fmt"
	"os/exec"
	"slices"
	"testing"
)

func TestOfAProgramThatForksItselfTheFirstIsMeant(t *testing.T) {
	cmd := exec.Command("sh", "-c", `sh -c 'echo $$; read line; true'; true`)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(bufio.NewReader(stdout), &child); err != nil {
		t.Fatal(err)
	}
	all := []int{child, cmd.Process.Pid}
	if first := FirstOf("sh", all); !slices.Equal(first, []int{cmd.Process.Pid}) {
		t.Errorf("of %v the first are %v", all, first)
	}
	if none := FirstOf("postgres", all); len(none) > 0 {
		t.Errorf("of another program: %v", none)
	}
	stdin.Close()
	_ = cmd.Wait()
}
