package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/howdah-backup/internal/display"
	"howdah.dev/howdah/cmd/howdah-backup/internal/lookup"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/bucketlock"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/readnotice"
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
	freed, errDelete := deleteLocked(ctx, store, name, gone)
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

// deleteLocked deletes a backup, or what is left of one, while nobody else deletes from its lineage.
func deleteLocked(ctx context.Context, store objstore.Store, name lookup.Name, gone bool) (freed int64, err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	held, unlock, err := bucketlock.Lock(ctx, store, name.Lineage, bucketlock.Holder{
		ID: "howdah-backup-" + strings.ToLower(rand.Text()), Name: fmt.Sprintf("howdah-backup delete %s on %s", name.ID, host),
	})
	if errors.Is(err, bucketlock.ErrHeld) {
		return 0, fmt.Errorf("nothing was deleted: %w; run the command again then", err)
	}
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := unread(ctx, store, name, held.At); err != nil {
		return 0, err
	}
	if gone {
		if err := abandoned(ctx, store, name); err != nil {
			return 0, err
		}
	}
	ctx, cancel := context.WithDeadlineCause(ctx, held.Until, errors.New("the deletion took too long; run the command again to finish it"))
	defer cancel()
	if freed, err = backup.Delete(ctx, store, name.Lineage, name.ID); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return freed, err
}

// unread refuses what somebody reads.
func unread(ctx context.Context, store objstore.Store, name lookup.Name, now time.Time) error {
	all, err := readnotice.List(ctx, store, name.Lineage, now)
	if err != nil {
		return err
	}
	for _, reader := range all {
		if reader.Reads(name.ID) {
			return fmt.Errorf("nothing was deleted: %s; run the command again then. If nobody of that name reads it, delete the object %s first",
				reader, layout.ReaderKey(name.Lineage, reader.ID))
		}
	}
	return nil
}

// quiet is for how long nothing may have been written under the ID of a backup that has no manifest: else it may be being written.
const quiet = time.Hour

// abandoned refuses what may be a backup that is being written. The lock tells what time it is in the bucket.
func abandoned(ctx context.Context, store objstore.Store, name lookup.Name) error {
	now, last := time.Time{}, time.Time{}
	for prefix, latest := range map[string]*time.Time{
		layout.DeletionsPrefix(name.Lineage): &now, layout.BackupPacksPrefix(name.Lineage, name.ID): &last,
		layout.ClaimKey(name.Lineage, name.ID, ""): &last,
	} {
		for info, err := range store.List(ctx, prefix, "") {
			if err != nil {
				return err
			}
			if info.Modified.After(*latest) {
				*latest = info.Modified
			}
		}
	}
	if now.Sub(last) < quiet {
		return fmt.Errorf("nothing was deleted: backup %s has no manifest, and its data was written at %s, so it may still be being written; if it is not, run the command again after %s",
			name, last.UTC().Format(time.RFC3339), last.Add(quiet).UTC().Format(time.RFC3339))
	}
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
