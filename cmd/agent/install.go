package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

func installCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "install DIR",
		Short: "Copy this program to DIR/agent",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			return install(program, args[0])
		},
	}
}

// install copies the program in one step, so that nobody ever runs half of it.
func install(program, dir string) error {
	from, err := os.Open(program)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	to, err := os.CreateTemp(dir, ".agent-*")
	if err != nil {
		return err
	}
	defer os.Remove(to.Name()) // gone once it is renamed
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Chmod(0o755), to.Sync(), to.Close()); err != nil {
		return fmt.Errorf("copy the agent to %s: %w", dir, err)
	}
	return os.Rename(to.Name(), filepath.Join(dir, "agent"))
}
