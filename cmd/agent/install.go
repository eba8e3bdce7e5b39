package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/passwd"
	"howdah.dev/howdah/pkg/agentapi"
)

func installCommand() *cobra.Command {
	var passwdFile string
	cmd := &cobra.Command{
		Use:   "install DIR",
		Short: "Copy this program to DIR/agent, and those beside it that a pod needs",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			for _, name := range []string{filepath.Base(agentapi.WALPath), filepath.Base(agentapi.AgentPath)} {
				if err := install(filepath.Join(filepath.Dir(program), name), args[0]); err != nil {
					return err
				}
			}
			if passwdFile == "" {
				return nil
			}
			return passwd.Write(passwdFile, os.Getuid(), os.Getgid())
		},
	}
	cmd.Flags().StringVar(&passwdFile, "passwd", "", "write a passwd file here that knows the user of this process as postgres")
	return cmd
}

// install copies a program in one step, so that nobody ever runs half of it.
func install(program, dir string) error {
	from, err := os.Open(program)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	to, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(to.Name()) // gone once it is renamed
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Chmod(0o755), to.Sync(), to.Close()); err != nil {
		return fmt.Errorf("copy %s to %s: %w", program, dir, err)
	}
	return os.Rename(to.Name(), filepath.Join(dir, filepath.Base(program)))
}
