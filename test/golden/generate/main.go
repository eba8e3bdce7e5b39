// Command generate makes the repositories of the present version of the format anew.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/test/golden"
)

func main() {
	if err := generate(filepath.Join("test/golden/testdata", fmt.Sprint("v", backup.FormatVersion))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return golden.Generate(context.Background(), dir)
}
