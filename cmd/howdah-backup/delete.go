package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/howdah-backup/internal/display"
	"howdah.dev/howdah/cmd/howdah-backup/internal/lookup"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore"
)

// deleted is what was removed, as JSON.
type deleted struct {
	Lineage    string `json:"lineage"`
	ID         string `json:"id"`
	FreedBytes int64  `json:"freedBytes"`
}

func (a *app) deleteCommand() *cobra.Command {
	yes := false
	command := &cobra.Command{
		Use:   "delete BACKUP",
		Short: "Delete a backup permanently",
		Long: "Delete a backup permanently: its manifest, and the packs that no other backup needs. WAL stays. Named as LINEAGE/BACKUP, " +
			"it also removes what an interrupted deletion left behind.",
		Args:   cobra.ExactArgs(1),
		PreRun: func(*cobra.Command, []string) { a.deletes = true },
		RunE: a.run(func(ctx context.Context, store objstore.Store, args []string) error {
			return a.delete(ctx, store, args[0], yes)
		}),
	}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask for confirmation")
	return command
}

func (a *app) delete(ctx context.Context, store objstore.Store, id string, yes bool) error {
	name, err := lookup.Find(ctx, store, a.filter, id)
	gone := errors.Is(err, lookup.ErrNotThere)
	if lineage, rest, full := strings.Cut(id, "/"); gone && full {
		name = lookup.Name{Lineage: lineage, ID: rest}
	} else if err != nil {
		return err
	}
	if !yes {
		if err := a.confirm(ctx, name); err != nil {
			return err
		}
	}
	freed, errDelete := backup.Delete(ctx, store, name.Lineage, name.ID)
	switch {
	case errDelete != nil:
		return errDelete
	case gone && freed == 0:
		return err
	case a.output == formatJSON:
		return a.writeJSON(deleted{Lineage: name.Lineage, ID: name.ID, FreedBytes: freed})
	}
	fmt.Fprintf(a.out, "Deleted %s and freed %s.\n", name, display.Bytes(freed))
	return nil
}

// confirm asks on a terminal. Elsewhere nobody could answer.
func (a *app) confirm(ctx context.Context, name lookup.Name) error {
	if a.in == nil || display.Width(a.in) == 0 {
		return fmt.Errorf("%w: there is no terminal to confirm the deletion of %s on; use --yes", errUsage, name)
	}
	fmt.Fprintf(a.errOut, "Delete backup %s permanently? Type its ID to confirm: ", name)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.in).ReadString('\n') // the end of the input is no answer
		answer <- strings.TrimSpace(line)
	}()
	select {
	case typed := <-answer:
		if typed == name.ID {
			return nil
		}
	case <-ctx.Done():
		fmt.Fprintln(a.errOut)
	}
	return errors.New("nothing was deleted")
}
